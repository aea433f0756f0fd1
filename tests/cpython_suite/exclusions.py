"""Tests of CPython's that cannot hold for translated functions, and why: each was seen to fail on the versions given, and for this
reason (the library's files have been looked at on 3.12 and 3.13). Behind them what should hold and does not yet."""

import re

LIFETIME = "counts references or waits for an object to die where the original code drops it; new code may hold it longer"
FRAME = "looks at frames, their variables or the code that runs"
REUSE = "looks whether CPython uses an object's memory again"
SIZE = "compares sizes of objects of CPython's own, or how they lie in memory"
IDENTITY = "looks whether two equal texts are one object; constants of new code may be made one"
TIME = "compares how long calls take"
GIVEN_UP = "gives a function's C structure another way to be called, past which new code runs"
DEPTH = "recurses until C's stack is nearly used up, of which the frame hook takes its share, and a translation begun down there"

# Files that are left out as a whole. What they test is no Python code that runs in this process.
FILES = [
    (r"test_(tkinter|tk|ttk.*|tix|turtle|idle|curses|winreg|winsound|msilib|startfile|winconsoleio|launcher)", "needs a screen or Windows"),
    (r"test_(gdb|embed|regrtest|peg_generator|clinic|cppext|c_globals|tools|generated_cases|freeze.*|perf_profiler|repl|cmd_line.*|venv|ensurepip)",
     "starts other processes, or compilers and debuggers, and runs next to no code here"),
    (r"test_(multiprocessing.*|concurrent_futures|urllib2net|urllibnet|robotparser|socketserver|nntplib|smtpnet|timeout)",
     "waits for other processes or the network, and runs next to no code here"),
]

TRACING = "has calls, lines or instructions told to a tracer, profiler or debugger; new code has others"
STATE = "sets state of the interpreter behind the program's back, or looks at what this process has done before"
WATCHED = "has C code told what becomes of dicts, types, functions and code objects; new code makes and writes others, or writes them in another way"

# File, pattern of the test's id behind the file's name, oldest and first later minor version, reason.
EXCLUDED = [
    ("test_contextlib", r"test_nokeepref", 8, 14, LIFETIME),
    ("test_exceptions", r"testExceptionCleanupState", 8, 14, LIFETIME),
    ("test_exceptions", r"test_3114|test_memory_error_cleanup|test_recursion_error_cleanup", 8, 9, LIFETIME),
    ("test_set|test_functools|test_deque", r"test_weakref$", 8, 9, LIFETIME),
    ("test_exceptions", r"test_generator_del_cleanup_exc_state", 8, 11, LIFETIME),
    ("test_exceptions", r"test_name_error_suggestions", 10, 12, FRAME),
    ("test_exceptions", r"test_lineno_after_other_except|test_lineno_in_try", 10, 14, FRAME),
    ("test_exceptions", r"testSettingException", 8, 12, FRAME),
    ("test_raise", r"test_3611", 8, 12, LIFETIME),
    ("test_raise", r"TestTracebackType.test_attrs", 8, 14, FRAME),
    ("test_scope", r"testCellLeak", 8, 12, LIFETIME),
    ("test_descr", r"test_remove_subclass|test_slots$", 8, 14, LIFETIME),
    ("test_descr", r"SharedKeyTests.test_subclasses", 8, 14, SIZE),
    ("test_dict", r"test_splittable_popitem|test_splittable_setattr_after_pop", 8, 14, SIZE),
    ("test_dict|test_set|test_deque|test_unicode|test_str", r"test_container_iterator|test_free_after_iterating", 8, 14, LIFETIME),
    ("test_dict", r"test_oob_indexing_dictiter_iternextitem", 8, 14, LIFETIME),
    ("test_functools", r"test_lru_cache_weakrefable", 8, 14, LIFETIME),
    ("test_class", r"testSetattrWrapperNameIntern", 8, 14, IDENTITY),
    ("test_operator", r"test_is$|test_is_not$", 8, 14, IDENTITY),
    ("test_unicode|test_str", r"test_getnewargs", 8, 14, IDENTITY),
    ("test_int", r"test_denial_of_service", 8, 14, TIME),
    ("test_iter", r"test_ref_counting_behavior|test_free_after_iterating", 8, 14, LIFETIME),
    ("test_enumerate|test_itertools", r"tuple_reuse", 8, 14, REUSE),
    ("test_itertools", r"SizeofTest", 8, 14, SIZE),
    ("test_call", r"TestPEP590.test_setvectorcall", 12, 14, GIVEN_UP),
    ("test_call", r"TestRecursion.test_super_deep", 12, 14, DEPTH),
    ("test_memoryview", r"test_gc|test_getbuffer|test_getitem|test_refs|test_setitem_(readonly|writable)", 8, 14, LIFETIME),
    ("test_ordered_dict|test_bytes", r"test_free_after_iterating", 8, 14, LIFETIME),
    ("test_pickle", r"test_(un)?pickler_reference_cycle", 12, 14, LIFETIME),
    ("test_optparse|test_unittest", r"test_refleak|testAssertRaisesRefcount", 8, 14, LIFETIME),
    ("test_weakref", r"test_weak_keyed_len_cycles|test_weak_keys", 12, 14, LIFETIME),
    ("test_coroutines", r"test_for_2", 8, 14, LIFETIME),
    ("test_array", r"test_bug_782369", 8, 12, LIFETIME),
    ("test_asyncio", r"test_log_destroyed_pending_task", 8, 9, LIFETIME),
    ("test_enumerate", r"test_bug1229429", 8, 14, LIFETIME),
    ("test_gc", r"test_38379", 8, 9, LIFETIME),
    ("test_os|test_sys", r"test_rename$|test_refcount$", 8, 14, LIFETIME),
    ("test_inspect", r"test_cache_does_not_cause_classes_to_persist", 13, 14, LIFETIME),
    ("test_dis", r"test_binary_specialize|test_call_specialize|test_load_attr_specialize", 11, 14, FRAME),
    ("test_bdb|test_pdb", r"test_skip|test_pdb_issue_gh_65052", 8, 14, TRACING),
    ("test_cprofile|test_profile|test_pstats", r"test_cprofile|test_get_stats_profile", 8, 14, TRACING),
    ("test_sys_setprofile", r"ProfileHookTestCase|ProfileSimulatorTestCase", 8, 14, TRACING),
    ("test_sys_settrace|test_trace", r"test_20_async_for_loop|test_no_line_event_after_creating_generator|test_coverage_ignore|test_testcapi_settrace_error",
     8, 14, TRACING),
    ("test_capi", r"test_exc(_info|eption)$|Test_Pep523API", 8, 14, STATE),
    ("test_capi", r"decrefs_once", 8, 14, LIFETIME),
    ("test_capi", r"test_watchers", 12, 14, WATCHED),
    ("test_monitoring", r".", 12, 14, TRACING),
    ("test_code", r"CoExtra|CodeWeakRefTest|test_invalid_bytecode", 8, 14, FRAME),
    ("test_ctypes", r"ObjectsTestCase|test_PyObj_FromPtr|test_PyString_FromString|RefcountTestCase|test_string_at|test__POINTER_c_char",
     8, 14, LIFETIME),
    ("test_dict_version|test_type_cache", r"test_clear$|test_tp_version_tag_unique", 8, 14, REUSE),
    ("test_frame", r"ClearTest|test_locals", 8, 14, FRAME),
    ("test_gc|test_picklebuffer|test_xml_etree|test_xml_etree_c|test_marshal|test_socket",
     r"test_collect_garbage|GCTests.test_frame|test_get_count|test_get_objects_arguments|test_resurrection|test_bug1055820c|test_trashcan|test_cycle|test_cyclic_gc|testFloat|testRefCount|test_newinstance", 8, 14, LIFETIME),
    ("test_import", r"ImportTracebackTests.test_syntax_error", 8, 14, FRAME),
    ("test_memoryio", r"test_cow|test_sizeof", 8, 14, SIZE),
    ("test_support", r"test_recursion", 8, 14, DEPTH),
    ("test_sys", r"test_current_frames|test_setrecursionlimit_to_depth", 8, 14, DEPTH),
    ("test_sys", r"test_getallocatedblocks|test_intern|test_subinterp_intern", 8, 14, IDENTITY),
    ("test_traceback", r"test_clear$|test_name_error_suggestions|test_comparison_params_variations|test_print$", 8, 14, FRAME),
    ("test_traceback", r"test_no_refs_to_exception", 8, 14, LIFETIME),
    ("test_tracemalloc", r"test_get_traced_memory|test_new_reference|test_snapshot$", 8, 14, SIZE),
    ("test_zipimport", r"testAFakeZlib", 8, 14, STATE),
    ("test_dis", r"test_distb_explicit_arg|test_distb_last_traceback|test_from_traceback_dis|test_loop_quicken|test_super_instructions|test_show_caches", 8, 14, FRAME),
]

# Pattern of a test's id, and why it fails only translated.
KNOWN = [
    (r"test_undetected_mutation", "what is appended to a list and taken off again in one piece is not written to it, so that CPython's sort sees no change"),
    (r"MappingTestCase.test_weak_key", "objects that the test has dropped live on for a while"),
]


def reason_for_file(name):
    """Return the reason why a whole file is left out; `None` if it is not."""
    return next((reason for pattern, reason in FILES if re.fullmatch(pattern, name)), None)


def reason_for(name, test, minor):
    """Return the reason why a test is left out; `None` if it is not."""
    prefix = f"test.{name}."
    test = test[len(prefix):] if test.startswith(prefix) else test
    for files, pattern, since, until, reason in EXCLUDED:
        if name in files.split("|") and since <= minor < until and re.search(pattern, test):
            return reason
    return None


def why_it_fails(test):
    """Return the known reason why a test fails only translated, if there is one."""
    return next((reason for pattern, reason in KNOWN if re.search(pattern, test)), None)
