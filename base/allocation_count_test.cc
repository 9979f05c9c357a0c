#include "ding_worker/base/allocation_count.h"

#include <new>

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(AllocationCountTest, EachFormOfOperatorNewCountsOnceAndItsMemoryCanBeDeleted) {
  const int64_t before = AllocationCount();

  // Called as functions: a compiler may leave out a new-expression whose memory is deleted at once.
  ::operator delete(::operator new(1));
  ::operator delete[](::operator new[](1));
  // As the temporary buffer of std::stable_sort is: AddressSanitizer stops here if only one of the
  // two is ours.
  ::operator delete(::operator new(1, std::nothrow));
  ::operator delete[](::operator new[](1, std::nothrow));

  EXPECT_EQ(AllocationCount() - before, 4);
}

}  // namespace
}  // namespace ding
