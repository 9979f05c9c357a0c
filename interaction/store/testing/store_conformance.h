// The requirements for every store, as a test suite. The test of an implementation instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Mem, StoreConformance, testing::Values(StoreMaker([] {
//     return std::make_unique<MemStore>();
//   })));
//
// It covers putting, getting, replacing, deleting and listing, values of no bytes and of many
// pieces, invalid keys, and concurrent writers and readers of the same keys.
#ifndef DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_

#include <functional>
#include <memory>

#include "ding_worker/interaction/store/store.h"
#include "gtest/gtest.h"

namespace ding {

// Returns an empty store.
using StoreMaker = std::function<std::unique_ptr<Store>()>;

class StoreConformance : public testing::TestWithParam<StoreMaker> {
 protected:
  const std::unique_ptr<Store> store_ = GetParam()();
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_
