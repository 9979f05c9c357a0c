// What every AllReduce does: instantiate AllReduceConformance with a factory of groups.
//
// Example:
//   INSTANTIATE_TEST_SUITE_P(InProcess, AllReduceConformance, testing::Values([] {
//                              return std::make_unique<InProcessGroups>();
//                            }));
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_CONFORMANCE_H_

#include "ding_worker/interaction/all_reduce.h"
#include "gtest/gtest.h"

namespace ding {

// The creator of a group's ranks; each is called on a thread of its own, with a rendezvous.
class AllReduceConformance : public testing::TestWithParam<AllReduceCreator> {};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_CONFORMANCE_H_
