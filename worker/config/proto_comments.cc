#include "ding_worker/worker/config/proto_comments.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/worker/config/text_parser.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace ding {
namespace {

using google::protobuf::io::Tokenizer;

using Comments = std::map<std::string, std::string, std::less<>>;  // by full name

// One line of the lines of a comment.
std::string JoinLines(absl::string_view comment) {
  std::string joined;
  for (const absl::string_view line : absl::StrSplit(comment, '\n')) {
    const absl::string_view words = absl::StripAsciiWhitespace(line);
    if (!words.empty()) absl::StrAppend(&joined, joined.empty() ? "" : " ", words);
  }
  return joined;
}

// Reads the comments of one file: its statements one by one, each of which ends with ';' or begins
// a block.
class FileReader {
 public:
  FileReader(absl::string_view text, Comments* comments)
      : input_(text.data(), static_cast<int>(text.size())),
        tokens_(&input_, &ignored_),
        comments_(*comments) {}

  void Read() {
    Advance();
    while (tokens_.current().type != Tokenizer::TYPE_END) ReadStatement("", Scope::kFile);
  }

 private:
  enum class Scope { kFile, kMessage, kEnum, kOther };

  struct Statement {
    std::vector<std::string> words;  // without what is in brackets
    std::string before;              // the comment
    int first_line = 0, last_line = 0;
    bool begins_block = false;

    const std::string& word(size_t i) const {
      static const auto* const kNone = new std::string;
      return i < words.size() ? words[i] : *kNone;
    }
  };

  // Goes on to the next token, and keeps the comments between the two.
  void Advance() {
    behind_.clear();
    before_.clear();
    std::vector<std::string> detached;
    tokens_.NextWithComments(&behind_, &detached, &before_);
  }

  // Reads up to ';' or '{', and one token further, so that `behind_` is the comment behind it.
  Statement TakeStatement() {
    Statement statement;
    statement.before = JoinLines(before_);
    statement.first_line = tokens_.current().line;
    int brackets = 0;
    while (tokens_.current().type != Tokenizer::TYPE_END) {
      const Tokenizer::Token token = tokens_.current();
      statement.last_line = token.line;
      brackets += token.text == "[" ? 1 : token.text == "]" ? -1 : 0;
      const bool ends = brackets == 0 && (token.text == ";" || token.text == "{");
      if (!ends && brackets == 0) statement.words.push_back(token.text);
      statement.begins_block = ends && token.text == "{";
      Advance();
      if (ends) break;
    }
    return statement;
  }

  // Reads a statement, and the block that it begins. `scope` ends with a dot or is empty.
  void ReadStatement(const std::string& scope, Scope kind) {
    const Statement statement = TakeStatement();
    const std::string behind = JoinLines(behind_);
    const std::string comment = absl::StrCat(
        statement.before, statement.before.empty() || behind.empty() ? "" : " ", behind);
    const std::string& first = statement.word(0);
    if (statement.begins_block) {
      comments_[scope_of_package_ + scope + statement.word(1)] = comment;
      if (first == "message")
        return ReadBlock(absl::StrCat(scope, statement.word(1), "."), Scope::kMessage);
      // The fields of a oneof and the values of an enum are in the scope around it.
      if (first == "oneof") return ReadBlock(scope, kind);
      return ReadBlock(scope, first == "enum" ? Scope::kEnum : Scope::kOther);
    }
    if (kind == Scope::kFile && first == "package") {
      for (size_t i = 1; i < statement.words.size(); ++i) scope_of_package_ += statement.word(i);
      scope_of_package_ += ".";
    } else if (kind == Scope::kEnum && statement.word(1) == "=") {
      comments_[scope_of_package_ + scope + first] = comment;
    } else if (kind == Scope::kMessage) {
      ReadField(statement, scope_of_package_ + scope, comment);
    }
  }

  void ReadField(const Statement& statement, const std::string& scope, std::string comment) {
    const auto equals = std::find(statement.words.begin(), statement.words.end(), "=");
    if (equals == statement.words.begin() || equals == statement.words.end()) return;
    const std::string& name = *(equals - 1);
    const bool is_below = statement.first_line == next_line_;
    if (!comment.empty()) {
      shared_ = name;
    } else if (is_below && !shared_.empty()) {
      comment = absl::StrCat("as ", shared_);
    } else {
      shared_.clear();
    }
    comments_[scope + name] = comment;
    next_line_ = statement.last_line + 1;
  }

  void ReadBlock(const std::string& scope, Scope kind) {
    next_line_ = -1;
    while (tokens_.current().type != Tokenizer::TYPE_END && tokens_.current().text != "}") {
      ReadStatement(scope, kind);
    }
    next_line_ = -1;
    Advance();
  }

  google::protobuf::io::ArrayInputStream input_;
  FirstError ignored_;
  Tokenizer tokens_;
  Comments& comments_;
  std::string scope_of_package_;  // with a dot at its end
  std::string behind_, before_;   // the comments between the last token and this one
  std::string shared_;            // the field whose comment those right below it share
  int next_line_ = -1;            // of a field right below the one before
};

struct Files {
  Mutex mutex;
  std::vector<absl::string_view> unread ABSL_GUARDED_BY(mutex);
  Comments comments ABSL_GUARDED_BY(mutex);
};

// Leaked, since files are added before main().
Files& AllFiles() {
  static auto* const files = new Files;
  return *files;
}

std::string Find(absl::string_view name) {
  Files& files = AllFiles();
  MutexLock lock(&files.mutex);
  for (const absl::string_view text : files.unread) FileReader(text, &files.comments).Read();
  files.unread.clear();
  const auto found = files.comments.find(name);
  return found == files.comments.end() ? "" : found->second;
}

}  // namespace

void AddProtoFile(absl::string_view text) {
  Files& files = AllFiles();
  MutexLock lock(&files.mutex);
  files.unread.push_back(text);
}

std::string CommentOf(const google::protobuf::Descriptor& message) {
  return Find(message.full_name());
}

std::string CommentOf(const google::protobuf::EnumValueDescriptor& value) {
  return Find(value.full_name());
}

std::string CommentOf(const google::protobuf::FieldDescriptor& field) {
  std::string comment = Find(field.full_name());
  // A section stands below other fields, but is no other such value.
  const bool is_section = field.message_type() != nullptr &&
                          field.message_type() != google::protobuf::Any::descriptor();
  absl::string_view shared_with = comment;
  if (is_section && absl::ConsumePrefix(&shared_with, "as ") &&
      field.containing_type()->FindFieldByName(std::string(shared_with)) != nullptr) {
    comment.clear();
  }
  const google::protobuf::OneofDescriptor* const alternatives = field.containing_oneof();
  if (alternatives == nullptr || alternatives->field_count() < 2) return comment;
  // What is said about all of them.
  const std::string shared = Find(alternatives->full_name());
  return absl::StrCat(shared, shared.empty() || comment.empty() ? "" : " ", comment);
}

}  // namespace ding
