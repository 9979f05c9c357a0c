// The Python module ding_worker._core.

#include "ding_worker/python/extension/module.h"

#include <pybind11/pybind11.h>

#include "ding_worker/base/version.h"

// The tag of a wheel of it: make_wheel.py looks for this text in the file.
#define DING_TEXT_OF(number) #number
#define DING_TAG(major, minor) "ding_worker_tag_cp" DING_TEXT_OF(major) DING_TEXT_OF(minor)

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of ding_worker: import the package, not this module.";
  module.attr("__version__") = DING_WORKER_VERSION;
  module.attr("_tag") = DING_TAG(PY_MAJOR_VERSION, PY_MINOR_VERSION);
  module.attr("_takes_numpy_2") = PYBIND11_VERSION_HEX >= 0x020C0000;
  ding::BindReplayBuffer(module);
  ding::BindVectorEnv(module);
}
