// Reads the metrics of a run while they are written, in bounded memory, and samples curves of them
// for a page.
//
//   metrics.csv ──► MetricsFile: a Curve for each tag ──► SampleCurves: a table of some 1,000 points
//
// A Curve holds at most kMaxBlocks blocks. At first each block is one value. When the blocks are
// full, two become one that keeps their mean, smallest and largest value. So a peak is never lost.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_WORKER_WATCH_RUN_CURVES_H_
#define DING_WORKER_WORKER_WATCH_RUN_CURVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

class Curve {
 public:
  static constexpr size_t kMaxBlocks = 8192;

  struct Block {
    double step = 0;  // of its last value
    double time = 0;  // seconds since 1970, of its last value
    double low = 0;
    double high = 0;
    double sum = 0;
    int64_t count = 0;

    double mean() const { return sum / static_cast<double>(count); }
  };

  // A value of a step that the curve has already replaces the old one: a resumed run repeats steps.
  // NaN and infinities are left out.
  void Add(int64_t step, double time, double value);
  // In the order of their steps.
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void Insert(const Block& value);
  void Halve();

  std::vector<Block> blocks_;
  int64_t block_values_ = 1;  // values of a full block
};

// A file in the format of metrics/csv.h, which another process may append to, or cut back.
class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  // Reads on from where the last call ended, up to `max_bytes`. Returns whether the curves have
  // changed. A last line without an end is left for the next call. If the file was cut back, the
  // curves are empty, and the next calls read it from its beginning.
  //   kDataLoss  a line is damaged; the message says which, and what was expected. What stands
  //              behind it is not read
  //   ...        the file cannot be read
  absl::StatusOr<bool> ReadMore(int64_t max_bytes);

  const std::string& path() const { return path_; }
  const std::map<std::string, Curve, std::less<>>& curves() const { return curves_; }
  // The time of the first line; nullopt: there is none yet.
  std::optional<double> first_time() const { return first_time_; }

 private:
  // Parses the whole lines of `text` up to a damaged one, which sets `damage_`. Returns how many
  // bytes they have.
  size_t Parse(absl::string_view text);
  absl::Status Damaged(absl::string_view line) const;

  std::string path_;
  std::map<std::string, Curve, std::less<>> curves_;
  std::optional<double> first_time_;
  int64_t offset_ = 0;   // of the first byte that is not parsed
  int64_t lines_ = 0;    // parsed
  std::string tail_;     // the last bytes before `offset_`: others stand there if the file was cut
  absl::Status damage_;  // of the last ReadMore()
};

enum class CurveAxis { kStep, kSeconds };

struct CurveOfRun {
  const Curve* curve = nullptr;  // null: the run has no such curve
  double start_time = 0;         // from which its seconds count
};

struct CurveView {
  CurveAxis axis = CurveAxis::kStep;
  int smooth = 1;  // the mean of the last `smooth` values
  double from = -std::numeric_limits<double>::infinity();
  double to = std::numeric_limits<double>::infinity();
  int max_points = 1000;
};

// One curve for each group of runs, over the same x. A value is NaN where a group has none.
//   one run       mid: mean of the values up to x since the point before; low, high: their range
//   several runs  mid: median; low, high: range of the runs. A run that has ended keeps its last
//                 value; one that has not begun is left out
struct CurveTable {
  struct Series {
    std::vector<double> low, mid, high;
  };
  std::vector<double> x;
  std::vector<Series> series;  // as the groups
};
CurveTable SampleCurves(const std::vector<std::vector<CurveOfRun>>& groups, const CurveView& view);

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_RUN_CURVES_H_
