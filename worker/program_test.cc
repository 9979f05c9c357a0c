#include "ding_worker/worker/program.h"

#include <string>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TakeSettingsTest, TakesEverySettingInOrderAndLeavesTheRest) {
  std::vector<std::string> words = {"serial",    "--set",       "a=1",    "--config=c", "-set",
                                    "b.c=[1,2]", "--set=d=x y", "--seed", "3"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  std::vector<std::string> settings;
  EXPECT_THAT(TakeSettings(&argc, argv.data(), &settings), IsOk());
  EXPECT_THAT(settings, ElementsAre("a=1", "b.c=[1,2]", "d=x y"));
  EXPECT_THAT(std::vector<std::string>(argv.begin(), argv.begin() + argc),
              ElementsAre("serial", "--config=c", "--seed", "3"));
}

TEST(TakeSettingsTest, ASettingNeedsAValue) {
  std::vector<std::string> words = {"serial", "--set"};
  std::vector<char*> argv = {words[0].data(), words[1].data(), nullptr};
  int argc = 2;
  std::vector<std::string> settings;
  EXPECT_THAT(TakeSettings(&argc, argv.data(), &settings),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path=value")));
}

}  // namespace
}  // namespace ding
