#include "ding_worker/interaction/store/mem_store.h"

#include <memory>
#include <string>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

INSTANTIATE_TEST_SUITE_P(Mem, StoreConformance,
                         testing::Values(StoreMaker([] { return std::make_unique<MemStore>(); })));

TEST(MemStore, StoresOfTheSameNameShareTheirValues) {
  auto first = std::make_unique<MemStore>("run");
  MemStore other("other run");
  ASSERT_THAT(first->Put("a", {"1"}), IsOk());
  auto second = std::make_unique<MemStore>("run");
  first.reset();
  std::string value;
  EXPECT_THAT(second->Get("a", &value), IsOk());
  EXPECT_EQ(value, "1");
  EXPECT_THAT(other.Get("a", &value), StatusIs(absl::StatusCode::kNotFound));
  second.reset();
  EXPECT_THAT(MemStore("run").Get("a", &value), StatusIs(absl::StatusCode::kNotFound));
}

TEST(MemStore, StoresWithoutANameArePrivate) {
  MemStore first;
  MemStore second;
  ASSERT_THAT(first.Put("a", {"1"}), IsOk());
  std::string value;
  EXPECT_THAT(second.Get("a", &value), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ding
