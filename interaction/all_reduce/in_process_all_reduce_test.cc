#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"

#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

InProcessAllReduceHub& Hub() {
  static auto* const hub = new InProcessAllReduceHub;
  return *hub;
}

INSTANTIATE_TEST_SUITE_P(InProcess, AllReduceConformance,
                         testing::Values([](const AllReduceOptions& options, Rendezvous*) {
                           return Hub().Connect(options);
                         }));

}  // namespace
}  // namespace ding
