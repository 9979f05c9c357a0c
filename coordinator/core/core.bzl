"""The sources of the coordinator's core: the simulation compiles them, too, with bugs planted in them."""

CORE_SOURCES = [
    "apply.cc",
    "claims.cc",
    "data.cc",
    "evaluations.cc",
    "messages.cc",
    "operators.cc",
    "recovery.cc",
    "run_driver.cc",
    "tasks.cc",
]

CORE_DEPS = [
    "//coordinator/core:events_cc_proto",
    "//coordinator:interface",
    "//coordinator/commander",
    "//coordinator/journal",
    "//coordinator/journal:journal_cc_proto",
    "//coordinator/state",
    "//data",
    "//interaction/store",
    "//interaction:messages_cc_proto",
    "//interaction/control",
    "//learner:interface",
    "//learner:learner_registry",
    "//metrics",
    "//replay_buffer:buffer",
    "//replay_buffer:used_data_remover",
]
