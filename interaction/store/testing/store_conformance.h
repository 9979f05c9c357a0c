// What every store must do, as a test suite. An implementation's test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Mem, StoreConformance, testing::Values(StoreMaker([] {
//     return std::make_unique<MemStore>();
//   })));
//
// It covers: putting, getting, replacing, deleting and listing, values of no bytes and of many
// pieces, what is no key, and writers and readers of the same keys at the same time.
#ifndef DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_

#include <functional>
#include <memory>

#include "ding_worker/interaction/store/store.h"
#include "gtest/gtest.h"

namespace ding {

// An empty store.
using StoreMaker = std::function<std::unique_ptr<Store>()>;

class StoreConformance : public testing::TestWithParam<StoreMaker> {
 protected:
  const std::unique_ptr<Store> store_ = GetParam()();
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_TESTING_STORE_CONFORMANCE_H_
