// The example of docs/reference/base.md.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// [example]
// Rolls dice until a six comes, and notes in a file how many it took and how long.
absl::StatusOr<int> RollASix(uint64_t seed, const Clock* clock, const std::string& path) {
  const Timer timer(clock);
  Rng dice(seed, "example/dice");
  int rolls = 1;
  while (dice.UniformInt(6) != 5) ++rolls;
  DING_RETURN_IF_ERROR(
      WriteFileAtomically(path, absl::StrCat(rolls, " rolls in ", timer.Seconds(), " s\n")));
  return rolls;
}

absl::StatusOr<int> RollTwoSixes(const Clock* clock, const std::string& folder) {
  DING_ASSIGN_OR_RETURN(const int first, RollASix(1, clock, JoinPath(folder, "first.txt")));
  DING_ASSIGN_OR_RETURN(const int second, RollASix(2, clock, JoinPath(folder, "second.txt")));
  return first + second;
}
// [/example]

TEST(BaseExample, Runs) {
  const std::string folder = FreshTestFolder();
  const SimulatedClock clock;
  DING_ASSERT_OK_AND_ASSIGN(const int rolls, RollTwoSixes(&clock, folder));
  EXPECT_GE(rolls, 2);
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(JoinPath(folder, "second.txt")));
  EXPECT_THAT(text, testing::HasSubstr(" rolls in 0 s"));
  DING_ASSERT_OK_AND_ASSIGN(const int again, RollTwoSixes(&clock, folder));
  EXPECT_EQ(again, rolls);
  EXPECT_THAT(RollTwoSixes(&clock, JoinPath(folder, "missing")), IsNotFound("missing/first.txt"));
}

}  // namespace
}  // namespace ding
