// The Python module ding_worker._core.

#include "ding_worker/python/extension/module.h"

#include <pybind11/pybind11.h>

#include "ding_worker/base/version.h"

#define DING_TEXT_OF(number) #number
#define DING_TAG(major, minor) "ding_worker_tag_cp" DING_TEXT_OF(major) DING_TEXT_OF(minor)

// The tag of a wheel of it: make_wheel.py looks for this text in the file, so it is in one piece.
static const char* volatile tag = DING_TAG(PY_MAJOR_VERSION, PY_MINOR_VERSION);

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of ding_worker: import the package, not this module.";
  module.attr("__version__") = DING_WORKER_VERSION;
  module.attr("_tag") = static_cast<const char*>(tag);
  module.attr("_takes_numpy_2") = PYBIND11_VERSION_HEX >= 0x020C0000;
  ding::BindLearningPolicy(module);
  ding::BindPolicy(module);
  ding::BindReplayBuffer(module);
  ding::BindTraining(module);
  ding::BindVectorEnv(module);
}
