//! The kinds of variables and the builtins of Python itself: one file per kind and per family of builtins. Each file
//! registers its kinds and builtins. No kind in this crate knows a framework.

pub mod builtins;
pub mod classes;
pub mod constant;
pub mod containers;
pub mod functions;
pub mod globals;
pub mod identity;
pub mod iterators;
pub mod missing_module;
pub mod module;
pub mod null;
pub mod numpy;
pub mod prelude;
pub mod tensor;
mod weak;

use std::rc::Rc;

use sot_core::variable::Factories;

sot_core::inventory::submit! {
    Factories {
        constant: |value| Rc::new(constant::ConstantVariable::new(value)),
        is_value: classes::object::is_kept_value,
        object: |value| Rc::new(classes::object::ObjectVariable::new(value)),
        exception: |cx, real| classes::exception::ExceptionVariable::of_real(cx, real, None, None),
        tell: classes::exception::tell,
        item_iterator: |cx, object| Ok(iterators::items::ItemIterator::over(cx, object)),
        instance_dict: classes::instance_dict::of,
        frame: builtins::frame::view,
        null: || Rc::new(null::NullVariable),
        tuple: |items| Rc::new(containers::tuple::TupleVariable::new(items)),
        list: |items| Rc::new(containers::list::ListVariable::new(items)),
        keyword_dict: containers::dict::DictVariable::from_keywords,
        cell: |contents| Rc::new(functions::cell::CellVariable::new(contents)),
        method: |function, receiver| Rc::new(functions::method::MethodVariable::new(function, receiver)),
        builtin_method: |descriptor, receiver| Rc::new(functions::method::BuiltinMethodVariable::new(descriptor, receiver)),
        tensor: |symbol, meta| Rc::new(tensor::TensorVariable::computed(symbol, meta)),
        written: tensor::TensorVariable::written,
        generator: |frame| Rc::new(functions::generator::GeneratorVariable::new(frame)),
    }
}
