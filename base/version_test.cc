#include "ding_worker/base/version.h"

#include <cstdio>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"

namespace ding {
namespace {

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
