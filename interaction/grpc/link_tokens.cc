#include "ding_worker/interaction/grpc/link_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/status_macros.h"
#include "openssl/crypto.h"

namespace ding {
namespace {

absl::StatusOr<LinkToken> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  // The words are not quoted: one of them may be the secret.
  if (words.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", words.size(), " words, expected a role and a token"));
  }
  if (words[0] != "collector" && words[0] != "learner" && words[0] != "operator") {
    return absl::InvalidArgumentError(
        "does not begin with a role, expected collector, learner or operator");
  }
  const absl::string_view token = words[1];
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("has a token of ", token.size(),
                                                   " characters, expected ", kMinTokenBytes, " to ",
                                                   kMaxTokenBytes));
  }
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("has a token with characters that cannot be sent");
  }
  return LinkToken{std::string(words[0]), std::string(token)};
}

}  // namespace

absl::StatusOr<std::vector<LinkToken>> ParseLinkTokens(absl::string_view text,
                                                       absl::string_view file) {
  std::vector<LinkToken> tokens;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view content = absl::StripAsciiWhitespace(line);
    if (content.empty() || content.front() == '#') continue;
    absl::StatusOr<LinkToken> token = ParseLine(content);
    const std::string where = absl::StrCat("token file '", file, "': line ", number);
    if (!token.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " ", token.status().message()));
    }
    if (!RoleOfToken(tokens, token->token).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " repeats an earlier token, expected a new one"));
    }
    if (tokens.size() == kMaxTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is one too many, expected ", kMaxTokens, " tokens at most"));
    }
    tokens.push_back(*std::move(token));
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token file '", file, "' has no token, expected lines of a role and a token"));
  }
  return tokens;
}

absl::string_view RoleOfToken(const std::vector<LinkToken>& tokens, absl::string_view token) {
  absl::string_view role;
  for (const LinkToken& each : tokens) {
    if (each.token.size() == token.size() &&
        CRYPTO_memcmp(each.token.data(), token.data(), token.size()) == 0) {
      role = each.role;
    }
  }
  return role;
}

}  // namespace ding
