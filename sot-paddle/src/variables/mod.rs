//! What Paddle adds to the kinds of variables and builtins: layers, shapes, meshes, and callables that `to_static` has
//! converted already.

mod assign;
mod broadcast_shape;
mod distribution;
mod gradient;
pub mod layer;
mod mesh;
mod psdb;
mod py_layer;
mod size;
mod static_function;
mod tracer;
