//! Containers: lists, tuples, dicts, sets and similar types.

pub mod c_state;
pub mod deque;
pub mod dict;
pub mod growing_list;
pub mod hash_key;
pub(crate) mod key_index;
pub mod list;
pub mod mapping_proxy;
pub mod range;
pub(crate) mod registered;
pub mod replica;
pub mod sequence;
pub mod set;
pub mod slice;
mod stand_ins;
pub mod tuple;
pub(crate) mod tuple_class;
