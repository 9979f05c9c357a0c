// The parts of the Python module ding_worker._core.
//
// Threads: called once, with the GIL, when Python imports the module.
#ifndef DING_WORKER_PYTHON_EXTENSION_MODULE_H_
#define DING_WORKER_PYTHON_EXTENSION_MODULE_H_

#include <pybind11/pybind11.h>

namespace ding {

void BindLearningPolicy(pybind11::module_& module);
void BindPolicy(pybind11::module_& module);
void BindReplayBuffer(pybind11::module_& module);
void BindTraining(pybind11::module_& module);
void BindVectorEnv(pybind11::module_& module);

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_MODULE_H_
