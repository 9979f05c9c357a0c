#include "ding_worker/base/check.h"

#include <string>
#include <type_traits>

#include "ding_worker/base/version.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Check, DoesNothingWhenTrueAndDoesNotEvaluateTheMessage) {
  int evaluated = 0;
  DING_CHECK(1 + 1 == 2) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(Check, IsOneStatement) {
  const bool never = false;
  bool reached_else = false;
  if (never)
    DING_CHECK(false) << "not reached";
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, PrintsPlaceConditionAndMessage) {
  const int row = 7;
  EXPECT_DEATH(DING_CHECK(row < 5) << "row " << row << " of 5",
               "check_test.cc:[0-9]+: check failed: row < 5 row 7 of 5");
}

struct Newest {};
using Old DING_DEPRECATED("0.1", "write Newest") = Newest;

TEST(VersionTest, TheNumberFollowsFromTheText) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  ASSERT_EQ(std::sscanf(DING_WORKER_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
  EXPECT_EQ(DING_WORKER_VERSION_NUMBER, 1000000 * major + 1000 * minor + patch);
}

TEST(VersionTest, TheLibraryHasTheVersionOfItsHeaders) {
  EXPECT_EQ(std::string(DING_WORKER_VERSION_SYMBOL), DING_WORKER_VERSION);
}

TEST(VersionTest, TheNameThatTheLinkerSeesFollowsFromTheText) {
#define DING_TEXT_(name) #name
#define DING_TEXT(name) DING_TEXT_(name)
  std::string name = std::string("ding_worker_version_") + DING_WORKER_VERSION;
  for (char& c : name) c = c == '.' ? '_' : c;
  EXPECT_EQ(DING_TEXT(DING_WORKER_VERSION_SYMBOL), name);
}

TEST(VersionTest, ADeprecatedNameStillWorks) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_TRUE((std::is_same<Old, Newest>::value));
#pragma GCC diagnostic pop
}

}  // namespace
}  // namespace ding
