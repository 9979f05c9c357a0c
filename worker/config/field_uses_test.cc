#include "ding_worker/worker/config/field_uses.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
      ParseFieldUses("# a comment\n\na.b | uur-kuuu | 3 | c=[1, 2] ; d=x | why\n"
                     "e | uuuuuuuu |\n"));
  ASSERT_EQ(uses.size(), 2u);
  const FieldUse& use = uses.at("a.b");
  EXPECT_EQ(use.uses, "uur-kuuu");
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
      {"a | uuu |\n", "has 3 letters, expected 8"},
      {"a | uuuuuuuu | | | | |\n", "columns, expected 2 to 5"},
      {"a | uuuuuuuu |\na | uuuuuuuu |\n", "appears twice"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(ParseFieldUses(test.table),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
        << test.table;
  }
}

TEST(FieldUsesTest, TheLongestNameThatStandsForAFieldCounts) {
  DING_ASSERT_OK_AND_ASSIGN(const FieldUses uses,
                            ParseFieldUses("a<X> | u----u-- | 1\na<Y> | -u---u-- | 2\n"
                                           "*.end | = | 3\n*.of.* | r | 4\na<Y>.*.end | = | 5\n"
                                           "a<Y>.of.end | rrrrrrrr | 6\nb.* | uuuuuuuu | 7\n"));
  const auto find = [&uses](const std::string& field) {
    const std::optional<FieldUse> use = FindFieldUse(uses, field);
    return use.has_value() ? absl::StrCat(use->uses, " ", use->value) : "none";
  };
  EXPECT_EQ(find("a<X>.other"), "u----u-- 1");
  EXPECT_EQ(find("a<Y>.other"), "-u---u-- 2");
  EXPECT_EQ(find("a<X>.end"), "u----u-- 3");
  EXPECT_EQ(find("a<X>.of.b"), "r----u-- 4");
  EXPECT_EQ(find("a<Y>.b.end"), "-u---u-- 5");
  EXPECT_EQ(find("a<Y>.of.end"), "rrrrrrrr 6");
  EXPECT_EQ(find("b.c"), "uuuuuuuu 7");
  EXPECT_EQ(find("c"), "none");
  EXPECT_EQ(find("a<Z>.b"), "none");
  EXPECT_EQ(find("a<Z>.end"), "none");  // of params without a line
  EXPECT_EQ(find("c.end"), "none");     // of no params
}

TEST(FieldUsesTest, APhraseNamesTheRuns) {
  const auto describe = [](const std::string& uses, const std::string& note, bool in_params) {
    FieldUse use;
    use.uses = uses;
    use.note = note;
    return DescribeUse(use, in_params);
  };
  EXPECT_EQ(describe("uuuuuuuu", "", false), "all");
  EXPECT_EQ(describe("uuuuu-rr", "", false), "all");
  EXPECT_EQ(describe("rr-uukur", "", false),
            "parallel, league; refused by serial, on-policy; no effect in evaluate");
  EXPECT_EQ(describe("u--uuu--", "", true), "");
  EXPECT_EQ(describe("ur-uuu--", "of networks of libtorch", true),
            "refused by on-policy; of networks of libtorch");
}

TEST(FieldUsesTest, AProgramWithoutATableKnowsNone) { EXPECT_THAT(KnownFieldUses(), IsEmpty()); }

}  // namespace
}  // namespace ding
