// Shows text as a terminal does. Breaks lines at its width, so that a test sees a line that is too
// long.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_METRICS_TESTING_SCREEN_H_
#define DING_WORKER_METRICS_TESTING_SCREEN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ding {

class Screen {
 public:
  explicit Screen(size_t width) : width_(width) {}

  void Write(absl::string_view text) {
    ++writes_;
    for (const char character : text) Put(character);
  }
  // Returns the lines without the blanks at their ends.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const std::string& line : lines_) {
      lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
    }
    return lines;
  }
  size_t column() const { return column_; }
  int writes() const { return writes_; }

 private:
  void Put(char character) {
    if (character == '\r') {
      column_ = 0;
    } else if (character == '\n') {
      NewLine();
    } else {
      if (column_ == width_) NewLine();
      if (lines_.back().size() <= column_) lines_.back().resize(column_ + 1, ' ');
      lines_.back()[column_++] = character;
    }
  }
  void NewLine() {
    lines_.emplace_back();
    column_ = 0;
  }

  const size_t width_;
  std::vector<std::string> lines_ = {""};
  size_t column_ = 0;
  int writes_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TESTING_SCREEN_H_
