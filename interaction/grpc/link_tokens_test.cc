#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/grpc/link_files.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(LinkTokens, ParsesOneTokenPerLine) {
  const std::string text =
      absl::StrCat("# of a run\n\n  ", TestTokens(), "\tlearner \t", std::string(32, 'n'), " \r\n");
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<LinkToken> tokens, ParseLinkTokens(text, "f"));
  ASSERT_THAT(tokens, SizeIs(4));
  for (const Hello::Role role : {Hello::COLLECTOR, Hello::LEARNER, Hello::OPERATOR}) {
    EXPECT_EQ(RoleOfToken(tokens, TestToken(RoleName(role))), RoleName(role));
  }
  EXPECT_EQ(RoleOfToken(tokens, std::string(32, 'n')), "learner");
}

TEST(LinkTokens, OnlyTheWholeTokenMatches) {
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<LinkToken> tokens,
                            ParseLinkTokens(TestTokens(), "f"));
  const std::string token = TestToken("learner");
  EXPECT_EQ(RoleOfToken(tokens, token.substr(1)), "");
  EXPECT_EQ(RoleOfToken(tokens, token.substr(0, token.size() - 1)), "");
  EXPECT_EQ(RoleOfToken(tokens, absl::StrCat(token, "x")), "");
  EXPECT_EQ(RoleOfToken(tokens, ""), "");
  for (size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] ^= 1;
    EXPECT_EQ(RoleOfToken(tokens, other), "") << i;
  }
  EXPECT_EQ(RoleOfToken({}, ""), "");
}

TEST(LinkTokens, InvalidLinesAreNamedWithoutTheirTokens) {
  const std::string secret(40, 's');
  const struct {
    std::string line;
    std::string message;
  } cases[] = {
      {secret, "has 1 words"},
      {absl::StrCat("learner ", secret, " more"), "has 3 words"},
      {absl::StrCat("coordinator ", secret), "does not begin with a role"},
      {absl::StrCat(secret, " learner"), "does not begin with a role"},
      {absl::StrCat("learner ", std::string(31, 's')), "31 characters, expected 32 to 512"},
      {absl::StrCat("learner ", std::string(513, 's')), "513 characters"},
      {absl::StrCat("learner ", secret, "\x80"), "cannot be sent"},
      {absl::StrCat("learner ", TestToken("operator")), "repeats an earlier token"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(ParseLinkTokens(absl::StrCat(TestTokens(), each.line), "the/file"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("'the/file': line 4 "), HasSubstr(each.message),
                               Not(HasSubstr("sss")), Not(HasSubstr("xxx")))));
  }
  EXPECT_THAT(ParseLinkTokens("# nothing\n", "f"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no token")));
  std::string many;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&many, "learner ", std::string(32, 'x'), i, "\n");
  EXPECT_THAT(ParseLinkTokens(many, "f"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 257 is one too many")));
}

TEST(LinkTokensFuzz, DamagedFilesAreRefusedOrGiveValidTokens) {
  Fuzz(20000, [](Mutator* mutator) {
    const auto tokens = ParseLinkTokens(mutator->Mutate(TestTokens()), "f");
    if (!tokens.ok()) return;
    EXPECT_GE(tokens->size(), 1u);
    for (const LinkToken& each : *tokens) {
      EXPECT_GE(each.token.size(), kMinTokenBytes);
      EXPECT_LE(each.token.size(), kMaxTokenBytes);
      EXPECT_FALSE(absl::StrContains(each.token, "\n"));
      EXPECT_EQ(RoleOfToken(*tokens, each.token), each.role);
    }
  });
}

}  // namespace
}  // namespace ding
