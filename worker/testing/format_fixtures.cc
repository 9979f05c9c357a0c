#include "ding_worker/worker/testing/format_fixtures.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/worker/testing/child_program.h"

namespace ding {

std::string FixturePath(const std::string& file) {
  return JoinPath("worker/testing/formats", file);
}

std::vector<double> ExpectedOf(const std::string& key) {
  const std::string text = ReadFile(FixturePath("expected.txt")).value();
  std::vector<double> values;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    double value = 0;
    if (words.size() != 2 || words[0] != key) continue;
    DING_CHECK(absl::SimpleAtod(words[1], &value)) << line;
    values.push_back(value);
  }
  DING_CHECK(!values.empty()) << "expected.txt has no " << key;
  return values;
}

std::string UnpackRun(const std::string& name, const std::string& folder) {
  ChildProgram tar("/bin/tar", {"-xzf", FixturePath(absl::StrCat(name, ".tar.gz")), "-C", folder},
                   JoinPath(folder, absl::StrCat("tar_", name)), {});
  DING_CHECK(tar.Wait(absl::Minutes(2)) == 0) << tar.err();
  return JoinPath(folder, name);
}

void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to) {
  DING_CHECK(from.size() == to.size());
  std::string text = ReadFile(path).value();
  const size_t at = text.find(from);
  DING_CHECK(at != std::string::npos) << path << " has no '" << from << "'";
  text.replace(at, from.size(), to);
  const absl::Status written = WriteFileAtomically(path, text);
  DING_CHECK(written.ok()) << written;
}

}  // namespace ding
