// Reads the histograms of a run from its event files of TensorBoard (metrics/tensorboard.h), while
// they are written, in bounded memory.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_WORKER_WATCH_RUN_HISTOGRAMS_H_
#define DING_WORKER_WORKER_WATCH_RUN_HISTOGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ding {

struct RunHistogram {
  int64_t step = 0;
  std::vector<double> edges;   // [n + 1], ascending
  std::vector<double> counts;  // [n]: of the values from an edge to the next one
};

class RunHistograms {
 public:
  // How many of a tag are kept; beyond them every second one is left out.
  static constexpr size_t kMaxHistograms = 128;

  // Reads what is new in the event files below `folder`, up to `max_bytes`. Returns whether there
  // is more to read now. A file that has become shorter is read anew.
  //   kDataLoss  a record is damaged; the message names the file. What is behind it is left out
  absl::StatusOr<bool> ReadMore(const std::string& folder, int64_t max_bytes);

  // By process and tag, such as "learner-0: learner_iter/td_error", in the order of their steps.
  const std::map<std::string, std::vector<RunHistogram>>& by_tag() const { return by_tag_; }

 private:
  struct File {
    int64_t read_bytes = 0;
    bool damaged = false;
  };

  absl::StatusOr<bool> ReadFile(const std::string& path, const std::string& prefix, File* file,
                                int64_t max_bytes);
  void Add(const std::string& tag, RunHistogram histogram);

  std::map<std::string, File> files_;
  std::map<std::string, std::vector<RunHistogram>> by_tag_;
  std::map<std::string, int64_t> added_;  // by tag
  std::map<std::string, int64_t> every_;  // by tag: so many are added for one that is kept
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_RUN_HISTOGRAMS_H_
