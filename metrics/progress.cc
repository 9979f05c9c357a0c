#include "ding_worker/metrics/progress.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"
#include "ding_worker/metrics/terminal.h"

namespace ding {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTerminalInterval = kSecond / 5;
constexpr int64_t kFirstLineInterval = kSecond;
constexpr int64_t kLongestLineInterval = 60 * kSecond;
// The rate is that of these last seconds: learning starts later than collecting, and the mean from
// the beginning on would promise too much for long.
constexpr int64_t kRateWindow = 30 * kSecond;
// Steps of a shorter time say nothing of the rate.
constexpr int64_t kLeastRateTime = kSecond / 10;

std::string FormatRate(double per_second, absl::string_view what) {
  return absl::StrFormat("%.*f %s/s", per_second < 100 ? 1 : 0, per_second, what);
}

// "0:07", "12:34", "27:46:40".
std::string FormatSeconds(double seconds) {
  const auto total = static_cast<int64_t>(std::min(seconds, 1e9));
  const int64_t hours = total / 3600, minutes = total / 60 % 60;
  if (hours == 0) return absl::StrFormat("%d:%02d", minutes, total % 60);
  return absl::StrFormat("%d:%02d:%02d", hours, minutes, total % 60);
}

std::string FormatCount(absl::string_view name, int64_t value, int64_t limit) {
  if (limit == ProgressOptions::kNoLimit) return absl::StrCat(name, " ", value);
  const double part = limit > 0 ? static_cast<double>(value) / static_cast<double>(limit) : 1;
  return absl::StrFormat("%s %d/%d (%.0f%%)", name, value, limit, 100 * part);
}

std::string FormatEval(const ProgressState& state) {
  std::string text = absl::StrFormat("eval %.6g", *state.last_eval);
  if (state.best_eval.has_value()) absl::StrAppendFormat(&text, " best %.6g", *state.best_eval);
  return text;
}

// As many of the fields, from the first on, as fit; the first is cut if need be.
std::string JoinFitting(const std::vector<std::string>& fields, size_t width) {
  std::string line = fields.front().substr(0, width);
  for (size_t i = 1; i < fields.size(); ++i) {
    if (line.size() + 2 + fields[i].size() > width) break;
    absl::StrAppend(&line, "  ", fields[i]);
  }
  return line;
}

// Returns the seconds until `limit` is reached at the pace of the samples; nullopt if there is no limit or
// no progress.
std::optional<double> SecondsTo(int64_t limit, int64_t now, int64_t before, double seconds) {
  if (limit == ProgressOptions::kNoLimit) return std::nullopt;
  if (now >= limit) return 0.0;
  if (now <= before || seconds <= 0) return std::nullopt;
  return static_cast<double>(limit - now) * seconds / static_cast<double>(now - before);
}

}  // namespace

ProgressOptions ProgressTo(std::FILE* stream) {
  ProgressOptions options;
  const int fd = fileno(stream);
  options.is_terminal = isatty(fd) == 1;
  options.width = [fd] { return TerminalWidth(fd); };
  options.write = [stream](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
  };
  return options;
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      start_nanos_(options_.clock->MonotonicNanos()),
      state_(options_.start),
      samples_({{start_nanos_, options_.start.env_step, options_.start.train_iter}}),
      interval_nanos_(options_.is_terminal ? kTerminalInterval : kFirstLineInterval),
      next_show_nanos_(options_.is_terminal ? start_nanos_ : start_nanos_ + kFirstLineInterval) {
  DING_CHECK(options_.write != nullptr);
}

Progress::~Progress() { Finish(); }

void Progress::Update(const ProgressState& state) {
  MutexLock lock(&mutex_);
  if (finished_) return;
  state_ = state;
  const int64_t now = options_.clock->MonotonicNanos();
  if (now < next_show_nanos_) return;
  Show(now);
  if (!options_.is_terminal) {
    interval_nanos_ = std::min(2 * interval_nanos_, kLongestLineInterval);
  }
  next_show_nanos_ = now + interval_nanos_;
}

void Progress::Clear() {
  MutexLock lock(&mutex_);
  if (finished_ || drawn_columns_ == 0) return;
  DrawOver("");
}

void Progress::Finish() {
  MutexLock lock(&mutex_);
  if (finished_) return;
  Show(options_.clock->MonotonicNanos());
  if (options_.is_terminal) options_.write("\n");
  finished_ = true;
}

void Progress::Show(int64_t now_nanos) {
  if (options_.is_terminal) {
    // Some terminals break the line when the last column is written.
    const int columns = std::max(options_.width() - 1, 1);
    DrawOver(FormatLine(now_nanos, static_cast<size_t>(columns)));
  } else {
    options_.write(absl::StrCat(FormatLine(now_nanos, std::string::npos), "\n"));
  }
  AddSample(now_nanos);
}

void Progress::AddSample(int64_t now_nanos) {
  samples_.push_back({now_nanos, state_.env_step, state_.train_iter});
  while (samples_.size() > 1 && samples_[1].nanos <= now_nanos - kRateWindow) samples_.pop_front();
}

std::string Progress::FormatLine(int64_t now_nanos, size_t width) const {
  const Sample now = {now_nanos, state_.env_step, state_.train_iter};
  const double seconds = static_cast<double>(now_nanos - samples_.front().nanos) / kSecond;
  std::vector<std::string> fields;
  if (options_.has_env_steps) {
    fields.push_back(FormatCount("env_step", state_.env_step, options_.max_env_step));
  }
  fields.push_back(FormatCount("train_iter", state_.train_iter, options_.max_train_iter));
  if (now_nanos - samples_.front().nanos >= kLeastRateTime) {
    const int64_t steps = options_.has_env_steps ? now.env_step - samples_.front().env_step
                                                 : now.train_iter - samples_.front().train_iter;
    fields.push_back(FormatRate(static_cast<double>(steps) / seconds,
                                options_.has_env_steps ? "env_step" : "train_iter"));
  }
  if (state_.last_eval.has_value()) fields.push_back(FormatEval(state_));
  const double elapsed = static_cast<double>(now_nanos - start_nanos_) / kSecond;
  fields.push_back(absl::StrCat("elapsed ", FormatSeconds(elapsed)));
  const std::optional<double> left = SecondsLeft(now);
  if (left.has_value()) fields.push_back(absl::StrCat("left ", FormatSeconds(*left)));
  if (!state_.detail.empty()) fields.push_back(state_.detail);
  return JoinFitting(fields, width);
}

std::optional<double> Progress::SecondsLeft(const Sample& now) const {
  const Sample& before = samples_.front();
  if (now.nanos - before.nanos < kLeastRateTime) return std::nullopt;
  const double seconds = static_cast<double>(now.nanos - before.nanos) / kSecond;
  const std::optional<double> by_steps =
      SecondsTo(options_.max_env_step, now.env_step, before.env_step, seconds);
  const std::optional<double> by_iters =
      SecondsTo(options_.max_train_iter, now.train_iter, before.train_iter, seconds);
  if (!by_steps.has_value()) return by_iters;
  if (!by_iters.has_value()) return by_steps;
  return std::min(*by_steps, *by_iters);
}

void Progress::DrawOver(absl::string_view line) {
  // Blanks, not an escape sequence: every terminal knows them.
  const size_t blanks = drawn_columns_ > line.size() ? drawn_columns_ - line.size() : 0;
  std::string text = absl::StrCat("\r", line, std::string(blanks, ' '));
  if (line.empty()) text += '\r';
  options_.write(text);
  drawn_columns_ = line.size();
}

}  // namespace ding
