//! The user's break list: callables whose calls end the graph and run for real. A change of the list makes every cache forget
//! what it holds, as translations do not guard on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;

use crate::stats;

struct Listed {
    // Keeps the object alive, so that its address stays its own.
    object: Py<PyAny>,
    times: usize,
}

static LENGTH: AtomicUsize = AtomicUsize::new(0);
static LIST: Mutex<Option<HashMap<usize, Listed>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<HashMap<usize, Listed>>> {
    LIST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Puts a callable on the list: a function, a class (its instances are meant too) or an object. Says whether it is new there.
pub fn add(object: &Bound<'_, PyAny>) -> bool {
    let mut list = lock();
    let list = list.get_or_insert_with(HashMap::new);
    let address = object.as_ptr() as usize;
    let listed = list.entry(address).or_insert_with(|| Listed { object: object.clone().unbind(), times: 0 });
    listed.times += 1;
    let is_new = listed.times == 1;
    LENGTH.store(list.len(), Ordering::Relaxed);
    if is_new {
        stats::forget();
    }
    is_new
}

/// Takes a callable off the list, once for each time it was put there. Says whether it is gone.
pub fn remove(object: &Bound<'_, PyAny>) -> bool {
    let mut list = lock();
    let Some(list) = list.as_mut() else { return false };
    let address = object.as_ptr() as usize;
    let Some(listed) = list.get_mut(&address) else { return false };
    listed.times -= 1;
    if listed.times > 0 {
        return false;
    }
    let gone = list.remove(&address);
    LENGTH.store(list.len(), Ordering::Relaxed);
    stats::forget();
    // Dropped without the lock held by a caller's destructor: the object is the caller's own.
    drop(gone.map(|listed| listed.object));
    true
}

/// Whether a call of `object` is to end the graph: it or its class is on the list.
pub fn contains(object: &Bound<'_, PyAny>) -> bool {
    if LENGTH.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let list = lock();
    let is_listed = |address: usize| list.as_ref().is_some_and(|list| list.contains_key(&address));
    is_listed(object.as_ptr() as usize) || is_listed(object.get_type_ptr() as usize)
}
