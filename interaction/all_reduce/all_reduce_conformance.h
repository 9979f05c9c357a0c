// Tests that every AllReduce must pass. Instantiate AllReduceConformance with an AllReduceCreator.
//
// Example:
//   INSTANTIATE_TEST_SUITE_P(InProcess, AllReduceConformance,
//                            testing::Values([](const AllReduceOptions& options, Rendezvous*) {
//                              return Hub().Connect(options);  // an InProcessAllReduceHub
//                            }));
#ifndef DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_CONFORMANCE_H_

#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "gtest/gtest.h"

namespace ding {

// The parameter creates the ranks of a group. It is called once for each rank, each time on a
// thread of its own, with the rendezvous of the group.
class AllReduceConformance : public testing::TestWithParam<AllReduceCreator> {};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_ALL_REDUCE_ALL_REDUCE_CONFORMANCE_H_
