#include "ding_worker/worker/config/field_uses.h"

#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(FieldUsesTest, ALineHasUsesValueSettingsAndANote) {
  DING_ASSERT_OK_AND_ASSIGN(
      const FieldUses uses,
      ParseFieldUses("# a comment\n\na.b | uur-ku | 3 | c=[1, 2] ; d=x | why\n"
                     "e | uuuuuu |\n"));
  ASSERT_EQ(uses.size(), 2u);
  const FieldUse& use = uses.at("a.b");
  EXPECT_EQ(use.uses, "uur-ku");
  EXPECT_EQ(use.value, "3");
  EXPECT_THAT(use.settings, ElementsAre("c=[1, 2]", "d=x"));
  EXPECT_EQ(use.note, "why");
  EXPECT_THAT(uses.at("e").settings, IsEmpty());
}

TEST(FieldUsesTest, LinesOfAnotherFormAreRefused) {
  const struct {
    const char* table;
    const char* message;
  } kCases[] = {
      {"a\n", "'a' has 1 columns"},
      {"a | uuu |\n", "has 3 letters, expected 6"},
      {"a | uuuuuu | | | | |\n", "columns, expected 2 to 5"},
      {"a | uuuuuu |\na | uuuuuu |\n", "appears twice"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(ParseFieldUses(test.table),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
        << test.table;
  }
}

TEST(FieldUsesTest, APhraseNamesTheRuns) {
  const auto describe = [](const std::string& uses, const std::string& note, bool in_params) {
    FieldUse use;
    use.uses = uses;
    use.note = note;
    return DescribeUse(use, in_params);
  };
  EXPECT_EQ(describe("uuuuuu", "", false), "all");
  EXPECT_EQ(describe("uuuuu-", "", false), "all");
  EXPECT_EQ(describe("rr-uuk", "", false),
            "parallel, league; refused by serial, on-policy; no effect in evaluate");
  EXPECT_EQ(describe("u--uuu", "", true), "");
  EXPECT_EQ(describe("ur-uuu", "of networks of libtorch", true),
            "refused by on-policy; of networks of libtorch");
}

TEST(FieldUsesTest, AProgramWithoutATableKnowsNone) { EXPECT_THAT(KnownFieldUses(), IsEmpty()); }

}  // namespace
}  // namespace ding
