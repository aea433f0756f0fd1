//! The kinds of variables and the builtins of Python itself: one file per kind and per family of builtins. Each registers
//! itself; no kind here knows a framework.

mod array;
mod array_comparison;
pub mod builtin_function;
pub mod builtins;
pub mod cell;
pub mod class;
pub mod class_statement;
pub mod constant;
pub mod deque;
pub mod dict;
pub mod exception;
pub mod exception_group;
pub mod function;
pub mod generator;
pub mod globals;
pub mod growing_list;
pub mod hash_key;
pub mod identity;
pub mod instance;
pub mod instance_dict;
pub mod iterators;
pub mod kept;
pub mod list;
pub mod mapping_proxy;
pub mod method;
pub mod module;
pub mod null;
pub mod numpy;
pub mod object;
pub mod range;
mod rest;
pub mod sequence;
pub mod set;
pub mod shape;
mod simple_namespace;
pub mod slice;
pub mod slots;
pub mod small_array;
pub mod stand_in;
pub mod state_manager;
pub mod subclass;
pub mod super_;
pub mod tensor;
pub mod tensor_text;
pub mod tuple;
mod weak;

use std::rc::Rc;

use sot_core::variable::Factories;

sot_core::inventory::submit! {
    Factories {
        constant: |value| Rc::new(constant::ConstantVariable::new(value)),
        is_value: object::is_kept_value,
        object: |value| Rc::new(object::ObjectVariable::new(value)),
        exception: |cx, real| exception::ExceptionVariable::of_real(cx, real, None, None),
        item_iterator: |cx, object| Ok(iterators::items::ItemIterator::over(cx, object)),
        instance_dict: instance_dict::of,
        null: || Rc::new(null::NullVariable),
        tuple: |items| Rc::new(tuple::TupleVariable::new(items)),
        list: |items| Rc::new(list::ListVariable::new(items)),
        keyword_dict: dict::DictVariable::from_keywords,
        cell: |contents| Rc::new(cell::CellVariable::new(contents)),
        method: |function, receiver| Rc::new(method::MethodVariable::new(function, receiver)),
        builtin_method: |descriptor, receiver| Rc::new(method::BuiltinMethodVariable::new(descriptor, receiver)),
        tensor: |symbol, meta| Rc::new(tensor::TensorVariable::computed(symbol, meta)),
        written: tensor::TensorVariable::written,
        generator: |frame| Rc::new(generator::GeneratorVariable::new(frame)),
    }
}
