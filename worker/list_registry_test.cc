#include "ding_worker/worker/list_registry.h"

#include <string>

#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

std::string List(const Registry<int>& registry) {
  std::string text;
  ListRegistry(registry, &text);
  return text;
}

TEST(ListRegistryTest, HelpIsAligned) {
  Registry<int> registry("codec");
  registry.Register("zstd", 2, "small", "a.cc:1");
  registry.Register("lz4", 1, "fast", "a.cc:2");
  EXPECT_EQ(List(registry),
            "codec:\n"
            "  lz4   fast\n"
            "  zstd  small\n");
}

TEST(ListRegistryTest, ARegistryWithoutNamesIsOneLine) {
  EXPECT_EQ(List(Registry<int>("codec")), "codec: none in this program\n");
}

// The longest lines have 100 columns.
TEST(ListRegistryTest, LongHelpContinuesBelowAndLongNamesHaveALineOfTheirOwn) {
  Registry<int> registry("codec");
  const std::string help = "one two three four five six seven eight nine ten eleven twelve ";
  registry.Register("a", 1, help + "x", "a.cc:1");
  registry.Register("b", 1, help + "xy", "a.cc:2");
  registry.Register("a name of as many as 32 letters.", 1, "help", "a.cc:3");
  registry.Register("a name with more than 32 letters.", 1, "help", "a.cc:4");
  EXPECT_EQ(List(registry), R"(codec:
  a                                 one two three four five six seven eight nine ten eleven twelve x
  a name of as many as 32 letters.  help
  a name with more than 32 letters.
                                    help
  b                                 one two three four five six seven eight nine ten eleven twelve
                                    xy
)");
}

TEST(ListRegistryTest, TheMessageOfTheParamsStandsBehindTheHelp) {
  Registry<int> registry("codec");
  registry.Register("lz4", 1, {"fast", &google::protobuf::Any::descriptor}, "a.cc:1");
  EXPECT_EQ(List(registry), "codec:\n  lz4  fast [google.protobuf.Any]\n");
}

TEST(ListRegistryTest, AReplacementIsListedWithItsHelp) {
  Registry<int> registry("codec");
  registry.Replace("lz4", 2, "mine", "a.cc:1");
  registry.Register("lz4", 1, "theirs", "a.cc:2");
  EXPECT_EQ(List(registry), "codec:\n  lz4  mine\n");
}

TEST(ListRegistryTest, AReplacementOfNothingIsAnError) {
  Registry<int> registry("codec");
  registry.Replace("lz4", 2, "mine", "a.cc:1");
  EXPECT_EQ(List(registry),
            "codec:\n"
            "  error: codec type 'lz4' is replaced at a.cc:1, but nothing registers that name: "
            "correct the name,\n"
            "    or link the target that registers it\n");
}

}  // namespace
}  // namespace ding
