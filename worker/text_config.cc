#include "ding_worker/worker/text_config.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/status_macros.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr size_t kMaxProblems = 20;

// Keeps the first error of a parse; lines and columns count from 0.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (found_) return;
    found_ = true;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  bool found() const { return found_; }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  bool found_ = false;
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

constexpr absl::string_view kTooDeep = "messages are nested more than ";

std::string TooDeep() { return absl::StrCat(kTooDeep, kMaxConfigDepth, " deep"); }

// Reports the first token that opens a message deeper than kMaxConfigDepth. The parser's own limit
// does not count messages that are written inside an Any, so this function counts in the tokens
// that the parser will see.
void FindTooDeep(absl::string_view text, FirstError* error) {
  using google::protobuf::io::Tokenizer;
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored;  // The parser reports it.
  Tokenizer tokens(&input, &ignored);
  tokens.set_allow_f_after_float(true);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  int depth = 0;
  while (tokens.Next()) {
    const std::string& token = tokens.current().text;
    if (token == "{" || token == "<") {
      if (++depth <= kMaxConfigDepth) continue;
      return error->AddError(tokens.current().line, tokens.current().column, TooDeep());
    }
    if ((token == "}" || token == ">") && depth > 0) --depth;
  }
}

// Parses `text` into `message`, replacing its content. Returns false if it fails; `error` says why.
bool ParseText(const std::string& text, Message* message, FirstError* error) {
  FindTooDeep(text, error);
  if (error->found()) {
    message->Clear();
    return false;
  }
  TextFormat::Parser parser;
  parser.RecordErrorsTo(error);
  return parser.ParseFromString(text, message);
}

// The Levenshtein distance.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::vector<std::string> FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) names.push_back(descriptor.field(i)->name());
  return names;
}

// "did you mean 'batch_size'?", or the list of all fields if no name is near.
std::string Suggestion(const Descriptor& descriptor, absl::string_view name) {
  const std::vector<std::string> names = FieldNames(descriptor);
  const auto nearest = std::min_element(names.begin(), names.end(),
                                        [name](const std::string& a, const std::string& b) {
                                          return EditDistance(a, name) < EditDistance(b, name);
                                        });
  if (nearest != names.end() &&
      EditDistance(*nearest, name) * 3 <= std::max<size_t>(name.size(), 3)) {
    return absl::StrCat("did you mean '", *nearest, "'?");
  }
  return absl::StrCat("it has: ", absl::StrJoin(names, ", "));
}

// Rewords a message of the parser that is about an unknown field, such as the next line, and adds a
// suggestion. Other messages stay as they are.
//   Message type "ding.LearnSection" has no field named "batchsize".
std::string Explain(const std::string& message) {
  const std::vector<std::string> quoted = absl::StrSplit(message, '"');
  if (quoted.size() == 5 && absl::StrContains(quoted[2], "has no field named")) {
    const Descriptor* const descriptor =
        DescriptorPool::generated_pool()->FindMessageTypeByName(quoted[1]);
    if (descriptor != nullptr) {
      return absl::StrCat("unknown field '", quoted[3], "' in ", quoted[1], "; ",
                          Suggestion(*descriptor, quoted[3]));
    }
  }
  return message;
}

// The number of opened minus closed braces of one line, outside of comments and strings.
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

struct PathStep {
  std::string name;
  std::optional<int> index;  // in a repeated field
};

absl::StatusOr<PathStep> ParseStep(absl::string_view text) {
  PathStep step;
  const size_t bracket = text.find('[');
  step.name = std::string(text.substr(0, bracket));
  if (bracket == absl::string_view::npos) return step;
  int index = 0;
  absl::string_view rest = text.substr(bracket + 1);
  if (!absl::ConsumeSuffix(&rest, "]") || !absl::SimpleAtoi(rest, &index) || index < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a field or field[index]"));
  }
  step.index = index;
  return step;
}

absl::StatusOr<const FieldDescriptor*> FindField(const Message& message, const PathStep& step) {
  const Descriptor& descriptor = *message.GetDescriptor();
  const FieldDescriptor* const field = descriptor.FindFieldByName(step.name);
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no field '", step.name, "' in ",
                                                   descriptor.full_name(), "; ",
                                                   Suggestion(descriptor, step.name)));
  }
  if (step.index.has_value() && !field->is_repeated()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", step.name, "' in ", descriptor.full_name(), " is not a list"));
  }
  return field;
}

std::string TypeName(const Any& any) {
  const size_t slash = any.type_url().rfind('/');
  return slash == std::string::npos ? any.type_url() : any.type_url().substr(slash + 1);
}

// Null if this program does not know the type.
const Descriptor* TypeOf(const Any& any) {
  return DescriptorPool::generated_pool()->FindMessageTypeByName(TypeName(any));
}

// Makes a message of the type that `any` holds, with the content of `any`.
absl::StatusOr<std::unique_ptr<Message>> UnpackAny(const Any& any) {
  const std::string name = TypeName(any);
  const Descriptor* const descriptor = TypeOf(any);
  if (descriptor == nullptr) {
    return absl::InvalidArgumentError(
        name.empty() ? std::string("params is empty: set it in the config file first")
                     : absl::StrCat("params is of type '", name, "', which this program has not"));
  }
  std::unique_ptr<Message> message(
      MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
  if (!message->ParseFromString(any.value())) {
    return absl::InvalidArgumentError(absl::StrCat("its content is not a valid ", name));
  }
  return message;
}

absl::Status SetLeaf(const PathStep& step, absl::string_view value, Message* message) {
  DING_ASSIGN_OR_RETURN(const FieldDescriptor* const field, FindField(*message, step));
  if (step.index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("set the whole list '", step.name, "' as ", step.name, "=[a, b]"));
  }
  std::string text(value);
  const bool is_string = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (is_string && !field->is_repeated() && (value.empty() || value[0] != '"')) {
    text = absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  }
  const std::unique_ptr<Message> parsed(message->New());
  FirstError error;
  if (!ParseText(absl::StrCat(step.name, ": ", text), parsed.get(), &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", value, "' is not a value of ", field->is_repeated() ? "list " : "",
                     "field '", step.name, "' (", field->cpp_type_name(), "): ", error.message()));
  }
  message->GetReflection()->ClearField(message, field);
  message->MergeFrom(*parsed);
  return absl::OkStatus();
}

absl::Status SetBySteps(absl::Span<const PathStep> steps, absl::string_view value,
                        Message* message) {
  if (auto* const any = dynamic_cast<Any*>(message)) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Message> inner, UnpackAny(*any));
    DING_RETURN_IF_ERROR(SetBySteps(steps, value, inner.get()));
    any->PackFrom(*inner);
    return absl::OkStatus();
  }
  if (steps.size() == 1) return SetLeaf(steps[0], value, message);
  DING_ASSIGN_OR_RETURN(const FieldDescriptor* const field, FindField(*message, steps[0]));
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", steps[0].name, "' has no fields inside"));
  }
  const Reflection& reflection = *message->GetReflection();
  if (!field->is_repeated()) {
    return SetBySteps(steps.subspan(1), value, reflection.MutableMessage(message, field));
  }
  const int size = reflection.FieldSize(*message, field);
  if (!steps[0].index.has_value() || *steps[0].index >= size) {
    return absl::InvalidArgumentError(absl::StrCat("field '", steps[0].name, "' is a list of ",
                                                   size, ": name one as ", steps[0].name, "[0]"));
  }
  return SetBySteps(steps.subspan(1), value,
                    reflection.MutableRepeatedMessage(message, field, *steps[0].index));
}

void FillInScalar(const FieldDescriptor& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(message, &field, field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(message, &field, field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(message, &field, field.default_value_float());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(message, &field, field.default_value_enum());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(message, &field, field.default_value_string());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

// `depth` is how deep the message is nested. Sub-messages are created down to kMaxConfigDepth only,
// since a type may contain itself.
void FillIn(int depth, Message* message) {
  if (auto* const any = dynamic_cast<Any*>(message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (!inner.ok()) return;  // It is empty, or of a type that the factory will refuse.
    FillIn(depth + 1, inner->get());
    any->PackFrom(**inner);
    return;
  }
  const Descriptor& descriptor = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      for (int k = 0; is_message && k < reflection.FieldSize(*message, &field); ++k) {
        FillIn(depth + 1, reflection.MutableRepeatedMessage(message, &field, k));
      }
    } else if (is_message) {
      // The presence of such a message is a choice of the user.
      const bool is_choice =
          field.message_type() == Any::descriptor() || field.containing_oneof() != nullptr;
      const bool is_left_out = is_choice || depth == kMaxConfigDepth;
      if (is_left_out && !reflection.HasField(*message, &field)) continue;
      FillIn(depth + 1, reflection.MutableMessage(message, &field));
    } else if (field.has_default_value() && !reflection.HasField(*message, &field)) {
      // A default of one alternative must not replace another alternative that is set.
      const OneofDescriptor* const alternatives = field.containing_oneof();
      if (alternatives != nullptr && reflection.HasOneof(*message, alternatives)) continue;
      FillInScalar(field, message);
    }
  }
}

// `path` leads to the message, with a dot at its end; `depth` is how deep the message is nested.
absl::Status CheckContent(const Message& message, const std::string& path, int depth) {
  const auto problem = [&path](const std::string& what) {
    return absl::InvalidArgumentError(
        path.empty() ? what : absl::StrCat(path.substr(0, path.size() - 1), ": ", what));
  };
  if (depth > kMaxConfigDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.substr(0, path.find('.')), ": ", TooDeep()));
  }
  const Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return problem(absl::StrCat("has a field of number ", unknown.field(0).number(), ", which ",
                                message.GetDescriptor()->full_name(), " has not"));
  }
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (TypeOf(*any) == nullptr) return absl::OkStatus();  // The factory will refuse it.
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

std::string FieldText(const Message& message, const FieldDescriptor& field, int index) {
  std::string text;
  TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

// The value of the field when it is not set; empty: it has none.
std::string DefaultText(const Message& message, const FieldDescriptor& field) {
  if (!field.has_default_value()) return "";
  const std::unique_ptr<Message> empty(message.New());
  FillInScalar(field, empty.get());
  return FieldText(*empty, field, -1);
}

void ListFields(const Message& message, const std::string& path, std::vector<SetField>* found) {
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (inner.ok()) return ListFields(**inner, path, found);
    if (!any->type_url().empty()) found->push_back({path, any->type_url(), ""});
    return;
  }
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const std::string place = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && !field->is_repeated()) {
      ListFields(reflection.GetMessage(message, field), place, found);
    } else if (is_message && !field->is_map()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ListFields(reflection.GetRepeatedMessage(message, field, i),
                   absl::StrCat(place, "[", i, "]"), found);
      }
    } else if (field->is_repeated()) {
      std::vector<std::string> values;
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        values.push_back(FieldText(message, *field, i));
      }
      found->push_back({place, absl::StrCat("[", absl::StrJoin(values, ", "), "]"), "[]"});
    } else {
      SetField set = {place, FieldText(message, *field, -1), DefaultText(message, *field)};
      if (set.value != set.default_value) found->push_back(std::move(set));
    }
  }
}

}  // namespace

std::vector<std::string> ParseTextConfig(absl::string_view text, absl::string_view source,
                                         Message* message) {
  std::vector<std::string> problems;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  while (problems.size() < kMaxProblems) {
    FirstError error;
    if (ParseText(absl::StrJoin(lines, "\n"), message, &error)) break;
    problems.push_back(absl::StrCat(source, ":", error.line() + 1, ":", error.column() + 1, ": ",
                                    error.found() ? Explain(error.message()) : "cannot be parsed"));
    if (absl::StartsWith(error.message(), kTooDeep)) break;
    if (!BlankStatement(static_cast<size_t>(error.line()), &lines)) break;
  }
  const absl::Status content = CheckConfigContent(*message);
  if (!content.ok()) {
    message->Clear();
    problems.push_back(absl::StrCat(source, ":1:1: ", content.message()));
  }
  return problems;
}

absl::Status SetByPath(absl::string_view path, absl::string_view value, Message* message) {
  std::vector<PathStep> steps;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    DING_ASSIGN_OR_RETURN(PathStep step, ParseStep(part));
    steps.push_back(std::move(step));
  }
  // Works on a copy, since a wrong path creates the messages on its way before the error is found.
  const std::unique_ptr<Message> changed(message->New());
  changed->CopyFrom(*message);
  DING_RETURN_IF_ERROR(
      Annotate(SetBySteps(steps, value, changed.get()), absl::StrCat("cannot set '", path, "'")));
  DING_RETURN_IF_ERROR(
      Annotate(CheckConfigContent(*changed), absl::StrCat("cannot set '", path, "'")));
  message->GetReflection()->Swap(message, changed.get());
  return absl::OkStatus();
}

absl::Status ApplySetting(absl::string_view assignment, Message* message) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  if (!absl::StrContains(assignment, '=') || parts.first.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", assignment, "' is not of the form path=value"));
  }
  return SetByPath(absl::StripAsciiWhitespace(parts.first),
                   absl::StripAsciiWhitespace(parts.second), message);
}

void FillInDefaults(Message* message) { FillIn(0, message); }

absl::Status CheckConfigContent(const Message& message) { return CheckContent(message, "", 0); }

std::vector<SetField> ListSetFields(const Message& message) {
  std::vector<SetField> found;
  ListFields(message, "", &found);
  return found;
}

std::string PrintTextConfig(const Message& message) {
  TextFormat::Printer printer;
  printer.SetExpandAny(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace ding
