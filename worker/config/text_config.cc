// Parses configs, and checks their content.
#include "ding_worker/worker/config/text_config.h"

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxProblems = 20;

// Returns the number of opened minus closed braces of one line, outside of comments and strings.
int BraceBalance(absl::string_view line) {
  int balance = 0;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == quote) {
        quote = 0;
      }
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#') {
      break;
    } else if (line[i] == '{') {
      ++balance;
    } else if (line[i] == '}') {
      --balance;
    }
  }
  return balance;
}

// Blanks the statement that begins in line `at`: that line, and the block that it opens. Returns
// false if its extent cannot be determined.
bool BlankStatement(size_t at, std::vector<std::string>* lines) {
  if (at >= lines->size() || absl::StripAsciiWhitespace((*lines)[at]).empty()) return false;
  int balance = 0;
  size_t end = at;
  do {
    balance += BraceBalance((*lines)[end++]);
    if (balance < 0) return false;
  } while (balance > 0 && end < lines->size());
  if (balance != 0) return false;
  for (size_t i = at; i < end; ++i) (*lines)[i].clear();
  return true;
}

// `path` leads to the message and ends with a dot, or is empty; `depth` is how deep the message is
// nested.
absl::Status CheckContent(const Message& message, const std::string& path, int depth) {
  const auto problem = [&path](const std::string& what) {
    return absl::InvalidArgumentError(
        path.empty() ? what : absl::StrCat(path.substr(0, path.size() - 1), ": ", what));
  };
  if (depth > kMaxConfigDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.substr(0, path.find('.')), ": ", TooDeepText(kMaxConfigDepth)));
  }
  const Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return problem(absl::StrCat("contains field number ", unknown.field(0).number(), ", which ",
                                message.GetDescriptor()->full_name(), " does not have"));
  }
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (TypeOfAny(*any) == nullptr) return absl::OkStatus();  // The factory will refuse it.
    if (!inner.ok()) return problem(std::string(inner.status().message()));
    return CheckContent(**inner, path, depth + 1);
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string inside = absl::StrCat(path, field->name(), ".");
    if (!field->is_repeated()) {
      DING_RETURN_IF_ERROR(CheckContent(reflection.GetMessage(message, field), inside, depth + 1));
    }
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      DING_RETURN_IF_ERROR(
          CheckContent(reflection.GetRepeatedMessage(message, field, i), inside, depth + 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ParseTextConfig(absl::string_view text, absl::string_view source,
                                         Message* message) {
  std::vector<std::string> problems;
  const auto report = [&](const TextError& error, const std::string& what) {
    problems.push_back(
        absl::StrCat(source, ":", error.line + 1, ":", error.column + 1, ": ", what));
  };
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  while (problems.size() < kMaxProblems) {
    const std::string remaining = absl::StrJoin(lines, "\n");
    const std::optional<TextError> error = ParseBoundedText(remaining, kMaxConfigDepth, message);
    if (!error.has_value()) break;
    // All that follows an unclosed block is misplaced, so that the errors of the parser would
    // mislead.
    const std::optional<TextError> unclosed =
        error->too_deep ? std::nullopt : FindUnclosedBlock(std::string(text));
    if (unclosed.has_value()) {
      problems.clear();
      report(*unclosed, unclosed->message);
      break;
    }
    report(*error, error->message.empty()
                       ? "cannot be parsed"
                       : ExplainTextError(*error, remaining, *message->GetDescriptor()));
    if (error->too_deep) break;
    if (!BlankStatement(static_cast<size_t>(error->line), &lines)) break;
  }
  const absl::Status content = CheckConfigContent(*message);
  if (!content.ok()) {
    message->Clear();
    problems.push_back(absl::StrCat(source, ":1:1: ", content.message()));
  }
  return problems;
}

absl::Status CheckConfigContent(const Message& message) { return CheckContent(message, "", 0); }

}  // namespace ding
