//! `hashlib` on known bytes. A real hash object, which no other code can reach, holds the state. It is never updated:
//! a call works on a copy, which replaces it.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::iterators::or_object_type;

sot_core::variable_kind! { "hash_object" }
sot_core::variable_kind! { "hash_method" }

macro_rules! makers {
    ($($item:ident = $path:literal, $module:literal, $name:literal;)+) => {$(
        builtin! { $item = $path? => |cx, args| make(cx, $module, $name, args) }
    )+};
}

makers! {
    OPENSSL_NEW = "_hashlib:new", "_hashlib", "new";
    OPENSSL_MD5 = "_hashlib:openssl_md5", "_hashlib", "openssl_md5";
    OPENSSL_SHA1 = "_hashlib:openssl_sha1", "_hashlib", "openssl_sha1";
    OPENSSL_SHA224 = "_hashlib:openssl_sha224", "_hashlib", "openssl_sha224";
    OPENSSL_SHA256 = "_hashlib:openssl_sha256", "_hashlib", "openssl_sha256";
    OPENSSL_SHA384 = "_hashlib:openssl_sha384", "_hashlib", "openssl_sha384";
    OPENSSL_SHA512 = "_hashlib:openssl_sha512", "_hashlib", "openssl_sha512";
    OPENSSL_SHA3 = "_hashlib:openssl_sha3_256", "_hashlib", "openssl_sha3_256";
    SHA256 = "_sha2:sha256", "_sha2", "sha256";
    SHA512 = "_sha2:sha512", "_sha2", "sha512";
    OLD_SHA256 = "_sha256:sha256", "_sha256", "sha256";
    OLD_SHA512 = "_sha512:sha512", "_sha512", "sha512";
    BLAKE2B = "_blake2:blake2b", "_blake2", "blake2b";
    BLAKE2S = "_blake2:blake2s", "_blake2", "blake2s";
}

fn make(cx: &mut OpcodeExecutor<'_>, module: &str, name: &str, args: &CallArgs) -> Flow<VarId> {
    let function = cpython::import(cx.py, module)?.getattr(name)?;
    let Some((positional, keywords)) = cx.materialize_args(args)? else { return Err(of_unknown()) };
    let object = function.call(positional, Some(&keywords)).map_err(|error| cx.raise(error))?;
    Ok(cx.trace.produce(Rc::new(HashVariable { object: object.unbind() })))
}

fn of_unknown() -> Unwind {
    cannot("a hash of bytes that are not known while tracing")
}

/// A hash object.
struct HashVariable {
    object: Py<PyAny>,
}

impl Variable for HashVariable {
    fn kind(&self) -> &'static str {
        "hash_object"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "HashVariable()".to_owned()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let object = self.object.bind(cx.py).clone();
        match &**name {
            "digest" | "hexdigest" | "update" | "copy" => {
                Ok(Some(cx.trace.produce(Rc::new(HashMethod { object: this, name: Rc::clone(name) }))))
            }
            "name" | "digest_size" | "block_size" => cx.fold(|_| object.getattr(&**name)).map(Some),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let copy = self.object.bind(cg.py()).getattr("copy")?.unbind();
        cg.call(|cg| cg.load_const(copy), [] as [VarId; 0])
    }
}

/// A bound method of a hash object.
struct HashMethod {
    object: VarId,
    name: Name,
}

impl Variable for HashMethod {
    fn kind(&self) -> &'static str {
        "hash_method"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let method = cpython::import(trace.py, "types").and_then(|types| types.getattr("BuiltinMethodType"));
        or_object_type(trace, method)
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("HashMethod({})", self.name)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let Some(hash) = cx.trace.vars.as_kind::<HashVariable>(self.object) else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                "a method of a hash whose variable has been replaced",
            ));
        };
        let Some((positional, keywords)) = cx.materialize_args(args)? else { return Err(of_unknown()) };
        let copy = hash.object.bind(cx.py).call_method0("copy")?;
        let result = copy.call_method(&*self.name, positional, Some(&keywords)).map_err(|error| cx.raise(error))?;
        match &*self.name {
            "copy" => Ok(cx.trace.produce(Rc::new(HashVariable { object: result.unbind() }))),
            "update" => {
                cx.trace.vars.set(self.object, Rc::new(HashVariable { object: copy.unbind() }));
                Ok(cx.trace.none())
            }
            _ => cx.fold(|_| Ok(result)),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.load(self.object)?;
        cg.load_attr(&self.name)
    }
}
