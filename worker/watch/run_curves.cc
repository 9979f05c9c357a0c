#include "ding_worker/worker/watch/run_curves.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr absl::string_view kHeader = "step,tag,value,wall_time\n";
constexpr size_t kTailBytes = 64;
// A longer line is no line of metrics.
constexpr size_t kMaxLineBytes = 64 << 10;

// Takes a number and `end` behind it from the front of `text`.
template <typename Number>
bool TakeNumber(char end, absl::string_view* text, Number* number) {
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  const auto size = static_cast<size_t>(rest - text->data());
  if (error != std::errc() || size >= text->size() || *rest != end) return false;
  text->remove_prefix(size + 1);
  return true;
}

// Takes a tag, which may be quoted, and the comma behind it.
bool TakeTag(absl::string_view* text, std::string* tag) {
  tag->clear();
  if (!absl::ConsumePrefix(text, "\"")) {
    const size_t comma = text->find(',');
    if (comma == absl::string_view::npos) return false;
    tag->assign(text->data(), comma);
    text->remove_prefix(comma + 1);
    return true;
  }
  for (;;) {
    const size_t quote = text->find('"');
    if (quote == absl::string_view::npos) return false;
    tag->append(text->data(), quote);
    text->remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(text, "\"")) return absl::ConsumePrefix(text, ",");
    tag->push_back('"');
  }
}

// The size of the first record of `text` with its end; npos: it has no end. A line break within
// quotes is none.
size_t RecordSize(absl::string_view text) {
  const size_t end = text.find('\n');
  if (end == absl::string_view::npos) return end;
  if (text.substr(0, end).find('"') == absl::string_view::npos) return end + 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i + 1;
  }
  return absl::string_view::npos;
}

struct Point {
  double x, low, mid, high;
};

std::vector<Point> PointsOf(const CurveOfRun& run, const CurveView& view) {
  std::vector<Point> points;
  if (run.curve == nullptr) return points;
  const std::vector<Curve::Block>& blocks = run.curve->blocks();
  points.reserve(blocks.size());
  double sum = 0;
  int64_t count = 0;
  size_t oldest = 0;  // block of the smoothed mean
  for (const Curve::Block& block : blocks) {
    sum += block.sum;
    count += block.count;
    while (count - blocks[oldest].count >= view.smooth) {
      sum -= blocks[oldest].sum;
      count -= blocks[oldest++].count;
    }
    const double x = view.axis == CurveAxis::kStep ? block.step : block.time - run.start_time;
    // Rounding of sums must not move a curve that is not smoothed.
    const double mid = view.smooth <= 1 ? block.mean() : sum / static_cast<double>(count);
    points.push_back({x, block.low, mid, block.high});
  }
  // The clock may have been set back.
  const auto by_x = [](const Point& a, const Point& b) { return a.x < b.x; };
  if (!std::is_sorted(points.begin(), points.end(), by_x)) {
    std::stable_sort(points.begin(), points.end(), by_x);
  }
  return points;
}

// The x of a table: those of the points, or equal distances if there are too many.
std::vector<double> MakeGrid(const std::vector<std::vector<std::vector<Point>>>& groups,
                             const CurveView& view) {
  const auto max_points = static_cast<size_t>(std::max(view.max_points, 2));
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  std::vector<double> grid;
  bool too_many = false;
  for (const auto& runs : groups) {
    for (const auto& points : runs) {
      size_t of_run = 0;
      for (const Point& point : points) {
        if (point.x < view.from || point.x > view.to) continue;
        first = std::min(first, point.x);
        last = std::max(last, point.x);
        if (!too_many) grid.push_back(point.x);
        ++of_run;
      }
      too_many |= of_run > max_points;
    }
  }
  if (!too_many) {
    std::sort(grid.begin(), grid.end());
    grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
    if (grid.size() <= max_points) return grid;
  }
  grid.resize(max_points);
  const double width = (last - first) / static_cast<double>(max_points - 1);
  for (size_t i = 0; i < max_points; ++i) grid[i] = first + width * static_cast<double>(i);
  grid.back() = last;
  return grid;
}

// The points of one run on the grid: point i sums up the points behind grid[i - 1] and up to
// grid[i]. NaN where there are none.
std::vector<Point> OnGrid(const std::vector<Point>& points, const std::vector<double>& grid,
                          double from, double* before) {
  std::vector<Point> cells(grid.size(), {kNaN, kNaN, kNaN, kNaN});
  size_t next = 0;
  for (; next < points.size() && points[next].x < from; ++next) *before = points[next].mid;
  for (size_t i = 0; i < grid.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (; next < points.size() && points[next].x <= grid[i]; ++next) {
      const Point& point = points[next];
      Point& cell = cells[i];
      cell.low = count == 0 ? point.low : std::min(cell.low, point.low);
      cell.high = count == 0 ? point.high : std::max(cell.high, point.high);
      sum += point.mid;
      ++count;
    }
    if (count > 0) cells[i].mid = sum / count;
  }
  return cells;
}

double MedianOf(std::vector<double>* values) {
  std::sort(values->begin(), values->end());
  const size_t half = values->size() / 2;
  return values->size() % 2 == 1 ? (*values)[half] : ((*values)[half - 1] + (*values)[half]) / 2;
}

CurveTable::Series MakeSeries(const std::vector<std::vector<Point>>& runs,
                              const std::vector<double>& grid, double from) {
  CurveTable::Series series;
  for (auto* values : {&series.low, &series.mid, &series.high}) values->assign(grid.size(), kNaN);
  std::vector<double> newest(runs.size(), kNaN);
  std::vector<std::vector<Point>> cells;
  for (size_t run = 0; run < runs.size(); ++run) {
    cells.push_back(OnGrid(runs[run], grid, from, &newest[run]));
  }
  std::vector<double> values;
  for (size_t i = 0; i < grid.size(); ++i) {
    if (runs.size() == 1) {
      series.low[i] = cells[0][i].low;
      series.mid[i] = cells[0][i].mid;
      series.high[i] = cells[0][i].high;
      continue;
    }
    values.clear();
    bool any = false;
    for (size_t run = 0; run < runs.size(); ++run) {
      any |= !std::isnan(cells[run][i].mid);
      if (!std::isnan(cells[run][i].mid)) newest[run] = cells[run][i].mid;
      if (!std::isnan(newest[run])) values.push_back(newest[run]);
    }
    if (!any) continue;
    series.mid[i] = MedianOf(&values);
    series.low[i] = values.front();
    series.high[i] = values.back();
  }
  return series;
}

}  // namespace

void Curve::Add(int64_t step, double time, double value) {
  if (!std::isfinite(value)) return;
  const Block added = {static_cast<double>(step), time, value, value, value, 1};
  if (!blocks_.empty() && added.step <= blocks_.back().step) return Insert(added);
  if (!blocks_.empty() && blocks_.back().count < block_values_) {
    Block& last = blocks_.back();
    last = {added.step,       time,          std::min(last.low, value), std::max(last.high, value),
            last.sum + value, last.count + 1};
    return;
  }
  if (blocks_.size() == kMaxBlocks) Halve();
  blocks_.push_back(added);
}

// Adds a value whose step is not beyond the last one's.
void Curve::Insert(const Block& value) {
  const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), value,
                                   [](const Block& a, const Block& b) { return a.step < b.step; });
  if (at->count == 1 && at->step == value.step) {
    *at = value;
  } else if (block_values_ == 1 && blocks_.size() < kMaxBlocks) {
    blocks_.insert(at, value);
  } else {
    at->low = std::min(at->low, value.low);
    at->high = std::max(at->high, value.high);
    at->sum += value.sum;
    ++at->count;
  }
}

void Curve::Halve() {
  for (size_t i = 0; i + 1 < blocks_.size(); i += 2) {
    const Block& a = blocks_[i];
    const Block& b = blocks_[i + 1];
    blocks_[i / 2] = {
        b.step,        b.time,           std::min(a.low, b.low), std::max(a.high, b.high),
        a.sum + b.sum, a.count + b.count};
  }
  blocks_.resize(blocks_.size() / 2);
  block_values_ *= 2;
}

absl::Status MetricsFile::Damaged(absl::string_view line) const {
  return absl::DataLossError(
      absl::StrCat("'", path_, "' is damaged: line ", lines_ + 1, " is '",
                   absl::CHexEscape(line.substr(0, 80)), "', expected ",
                   lines_ == 0 ? "the columns step,tag,value,wall_time" : "step,tag,value,time"));
}

size_t MetricsFile::Parse(absl::string_view text) {
  size_t parsed = 0;
  std::string tag;
  if (offset_ == 0) {
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos && kHeader.substr(0, text.size()) == text) return 0;
    if (text.substr(0, end + 1) != kHeader) {
      damage_ = Damaged(text.substr(0, end));
      return 0;
    }
    parsed = kHeader.size();
    ++lines_;
  }
  Curve* curve = nullptr;  // of the line before
  std::string curve_tag;
  for (;;) {
    const size_t size = RecordSize(text.substr(parsed));
    if (size == absl::string_view::npos) {
      if (text.size() - parsed >= kMaxLineBytes) damage_ = Damaged(text.substr(parsed));
      return parsed;
    }
    const absl::string_view line = text.substr(parsed, size);
    absl::string_view rest = line;
    int64_t step = 0;
    double value = 0;
    double time = 0;
    if (!TakeNumber(',', &rest, &step) || !TakeTag(&rest, &tag) ||
        !TakeNumber(',', &rest, &value) || !TakeNumber('\n', &rest, &time) || !rest.empty()) {
      damage_ = Damaged(line.substr(0, size - 1));
      return parsed;
    }
    if (curve == nullptr || tag != curve_tag) {
      curve = &curves_[tag];
      curve_tag = tag;
    }
    if (!first_time_.has_value()) first_time_ = time;
    curve->Add(step, time, value);
    parsed += size;
    ++lines_;
  }
}

absl::StatusOr<bool> MetricsFile::ReadMore(int64_t max_bytes) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path_, O_RDONLY));
  bool changed = false;
  const auto read_from = [&file](int64_t from, int64_t size) {
    std::string bytes(static_cast<size_t>(size), '\0');
    const ssize_t count = pread(file.fd(), &bytes[0], bytes.size(), from);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return bytes;
  };
  const auto tail_size = static_cast<int64_t>(tail_.size());
  if (file.size_bytes() < offset_ || read_from(offset_ - tail_size, tail_size) != tail_) {
    curves_.clear();
    first_time_.reset();
    tail_.clear();
    offset_ = lines_ = 0;
    changed = true;
  }
  // A damaged line may be mended.
  const int64_t size =
      std::min(damage_.ok() ? max_bytes : int64_t{kMaxLineBytes}, file.size_bytes() - offset_);
  damage_ = absl::OkStatus();
  if (size == 0) return changed;
  const std::string text = read_from(offset_, size);
  const size_t parsed = Parse(text);
  const absl::string_view taken = absl::string_view(text).substr(0, parsed);
  if (parsed > 0) {
    tail_ = std::string(taken.substr(taken.size() - std::min(taken.size(), kTailBytes)));
  }
  offset_ += static_cast<int64_t>(parsed);
  DING_RETURN_IF_ERROR(damage_);
  return changed || parsed > 0;
}

CurveTable SampleCurves(const std::vector<std::vector<CurveOfRun>>& groups, const CurveView& view) {
  std::vector<std::vector<std::vector<Point>>> points;
  for (const std::vector<CurveOfRun>& runs : groups) {
    points.emplace_back();
    for (const CurveOfRun& run : runs) points.back().push_back(PointsOf(run, view));
  }
  CurveTable table;
  table.x = MakeGrid(points, view);
  for (const auto& runs : points) table.series.push_back(MakeSeries(runs, table.x, view.from));
  return table;
}

}  // namespace ding
