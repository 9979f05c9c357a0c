#include "ding_worker/metrics/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/check.h"
#include "ding_worker/metrics/terminal.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTerminalInterval = kSecond / 5;
constexpr int64_t kFirstLineInterval = kSecond;
constexpr int64_t kLongestLineInterval = 60 * kSecond;
constexpr int64_t kJsonInterval = kSecond;
// The rate is that of these last seconds: learning starts later than collecting, and the mean from
// the beginning on would promise too much for long.
constexpr int64_t kRateWindow = 10 * kSecond;
// The least time between two samples within that window.
constexpr int64_t kSampleInterval = kSecond / 5;
// Steps of a shorter time say nothing of the rate.
constexpr int64_t kLeastRateTime = kSecond / 10;

// The importance of fields, and of their shorter forms: what is listed first is given up first.
enum Importance {
  kDetail,
  kElapsed,
  kRateWithUnit,
  kOtherCounter,
  kCounterWithName,
  kBestEval,
  kCounterWithLimit,
  kStage,
  kLaterValues,
  kSecondValue = kLaterValues + 100,
  kPlainCounter,
  kRate,
  kLeft,
  kFirstValue,
  kEval,
  kPart,
};

std::string FormatRate(double per_second, absl::string_view what) {
  return absl::StrFormat("%.*f%s/s", per_second < 100 ? 1 : 0, per_second, what);
}

// "0:07", "12:34", "27:46:40".
std::string FormatSeconds(double seconds) {
  const auto total = static_cast<int64_t>(std::min(seconds, 1e9));
  const int64_t hours = total / 3600, minutes = total / 60 % 60;
  if (hours == 0) return absl::StrFormat("%d:%02d", minutes, total % 60);
  return absl::StrFormat("%d:%02d:%02d", hours, minutes, total % 60);
}

// The counter by which the run is measured, from "env_step 12345/50000 (25%)" to "25%".
ProgressField CounterField(absl::string_view name, int64_t value, int64_t limit) {
  if (limit == ProgressOptions::kNoLimit) {
    return {{{absl::StrCat(name, " ", value), kCounterWithName}, {absl::StrCat(value), kPart}}};
  }
  const double part = limit > 0 ? static_cast<double>(value) / static_cast<double>(limit) : 1;
  const std::string percent = absl::StrFormat("%.0f%%", 100 * part);
  return {{{absl::StrFormat("%s %d/%d (%s)", name, value, limit, percent), kCounterWithName},
           {absl::StrFormat("%d/%d %s", value, limit, percent), kCounterWithLimit},
           {absl::StrFormat("%d %s", value, percent), kPlainCounter},
           {percent, kPart}}};
}

// The first value is more important than the others, of which the later ones are given up first.
ProgressField ValueField(const ProgressValues& values, size_t i) {
  const int later = std::max<int>(kSecondValue + 1 - static_cast<int>(i), kLaterValues);
  const auto& [name, value] = values[i];
  return {{{absl::StrFormat("%s %.4g", name, value), i == 0 ? kFirstValue : later}}};
}

ProgressField EvalField(const ProgressState& state) {
  const std::string last = absl::StrFormat("eval %.6g", *state.last_eval);
  ProgressField field{{{last, kEval}}};
  if (!state.best_eval.has_value()) return field;
  const std::string best = absl::StrFormat("%s best %.6g", last, *state.best_eval);
  field.forms.insert(field.forms.begin(), {best, kBestEval});
  if (*state.last_eval >= *state.best_eval) field.style = TextStyle::kGood;
  return field;
}

// From "evaluating (collector-0), learner-0 waits" to "evaluating".
ProgressField DetailField(const std::string& detail) {
  const std::string stage = detail.substr(0, detail.find(" ("));
  ProgressField field{{{detail, kDetail}}, TextStyle::kWarning};
  if (!absl::StrContains(stage, ' ')) field.forms.push_back({stage, kStage});
  return field;
}

// JSON has no NaN and no infinity.
nlohmann::ordered_json Number(std::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  return *value;
}

nlohmann::ordered_json Limit(int64_t limit) {
  if (limit == ProgressOptions::kNoLimit) return nullptr;
  return limit;
}

// Returns the seconds until `limit` is reached at the pace of `done` in `seconds`; nullopt if there
// is no limit or no progress.
std::optional<double> SecondsTo(int64_t limit, int64_t now, int64_t done, double seconds) {
  if (limit == ProgressOptions::kNoLimit) return std::nullopt;
  if (now >= limit) return 0.0;
  if (done <= 0) return std::nullopt;
  return static_cast<double>(limit - now) * seconds / static_cast<double>(done);
}

}  // namespace

ProgressOptions ProgressTo(std::FILE* stream) {
  ProgressOptions options;
  const int fd = fileno(stream);
  options.style = CanDrawOver(fd) ? ProgressStyle::kLine : ProgressStyle::kPlain;
  options.colors = UsesColors(fd);
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
      interval_nanos_(options_.style == ProgressStyle::kLine   ? kTerminalInterval
                      : options_.style == ProgressStyle::kJson ? kJsonInterval
                                                               : kFirstLineInterval),
      next_show_nanos_(options_.style == ProgressStyle::kLine ? start_nanos_
                                                              : start_nanos_ + interval_nanos_) {
  DING_CHECK(options_.write != nullptr);
}

Progress::~Progress() { Finish(); }

void Progress::Update(const ProgressState& state) {
  MutexLock lock(&mutex_);
  if (finished_ || options_.style == ProgressStyle::kOff) return;
  // A learner that went back to a checkpoint: what came before says nothing of the rate.
  const bool went_back = state.env_step < state_.env_step || state.train_iter < state_.train_iter;
  state_ = state;
  const int64_t now = options_.clock->MonotonicNanos();
  if (went_back) samples_.assign({{now, state.env_step, state.train_iter}});
  if (now >= next_show_nanos_) {
    Show(now);
    if (options_.style == ProgressStyle::kPlain) {
      interval_nanos_ = std::min(2 * interval_nanos_, kLongestLineInterval);
    }
    next_show_nanos_ = now + interval_nanos_;
  }
  if (now - samples_.back().nanos >= kSampleInterval) AddSample(now);
}

void Progress::Clear() {
  MutexLock lock(&mutex_);
  if (finished_ || drawn_columns_ == 0) return;
  DrawOver({});
}

void Progress::Finish() {
  MutexLock lock(&mutex_);
  if (finished_) return;
  finished_ = true;
  if (options_.style == ProgressStyle::kOff) return;
  Show(options_.clock->MonotonicNanos());
  if (options_.style == ProgressStyle::kLine) options_.write("\n");
}

void Progress::Show(int64_t now_nanos) {
  if (options_.style == ProgressStyle::kJson) {
    options_.write(absl::StrCat(Json(now_nanos), "\n"));
  } else if (options_.style == ProgressStyle::kLine) {
    DrawOver(LayOutProgress(Fields(now_nanos), Columns(), options_.colors));
  } else {
    const ProgressLine line =
        LayOutProgress(Fields(now_nanos), std::string::npos, /*colors=*/false);
    options_.write(absl::StrCat(line.text, "\n"));
  }
}

void Progress::AddSample(int64_t now_nanos) {
  samples_.push_back({now_nanos, state_.env_step, state_.train_iter});
  while (samples_.size() > 1 && samples_[1].nanos <= now_nanos - kRateWindow) samples_.pop_front();
}

std::optional<Progress::Pace> Progress::PaceAt(int64_t now_nanos) const {
  const Sample& before = samples_.front();
  if (now_nanos - before.nanos < kLeastRateTime) return std::nullopt;
  return Pace{static_cast<double>(now_nanos - before.nanos) / kSecond,
              state_.env_step - before.env_step, state_.train_iter - before.train_iter};
}

double Progress::SecondsSinceStart(int64_t now_nanos) const {
  return static_cast<double>(now_nanos - start_nanos_) / kSecond;
}

std::vector<ProgressField> Progress::Fields(int64_t now_nanos) const {
  const bool has_env_steps = options_.has_env_steps;
  const std::optional<Pace> pace = PaceAt(now_nanos);
  const ProgressValues values = options_.values();
  std::vector<ProgressField> fields;
  fields.push_back(has_env_steps
                       ? CounterField("env_step", state_.env_step, options_.max_env_step)
                       : CounterField("train_iter", state_.train_iter, options_.max_train_iter));
  if (!values.empty()) fields.push_back(ValueField(values, 0));
  if (state_.last_eval.has_value()) fields.push_back(EvalField(state_));
  for (size_t i = 1; i < values.size(); ++i) fields.push_back(ValueField(values, i));
  if (has_env_steps) {
    ProgressField iters = CounterField("train_iter", state_.train_iter, options_.max_train_iter);
    fields.push_back({{{iters.forms.front().text, kOtherCounter}}, TextStyle::kDim});
  }
  if (pace.has_value()) {
    const double rate =
        static_cast<double>(has_env_steps ? pace->env_steps : pace->train_iters) / pace->seconds;
    fields.push_back(
        {{{FormatRate(rate, has_env_steps ? " env_step" : " train_iter"), kRateWithUnit},
          {FormatRate(rate, ""), kRate}},
         TextStyle::kDim});
  }
  fields.push_back(
      {{{absl::StrCat("elapsed ", FormatSeconds(SecondsSinceStart(now_nanos))), kElapsed}},
       TextStyle::kDim});
  const std::optional<double> left = SecondsLeft(now_nanos);
  if (left.has_value()) {
    fields.push_back({{{absl::StrCat("left ", FormatSeconds(*left)), kLeft}}, TextStyle::kDim});
  }
  if (!state_.detail.empty()) fields.push_back(DetailField(state_.detail));
  return fields;
}

std::string Progress::Json(int64_t now_nanos) const {
  const std::optional<Pace> pace = PaceAt(now_nanos);
  nlohmann::ordered_json json;
  json["env_step"] = options_.has_env_steps ? nlohmann::ordered_json(state_.env_step) : nullptr;
  json["max_env_step"] = Limit(options_.max_env_step);
  json["train_iter"] = state_.train_iter;
  json["max_train_iter"] = Limit(options_.max_train_iter);
  const auto rate = [&](int64_t Pace::*count) -> std::optional<double> {
    if (!pace.has_value()) return std::nullopt;
    return static_cast<double>((*pace).*count) / pace->seconds;
  };
  json["env_steps_per_second"] =
      Number(options_.has_env_steps ? rate(&Pace::env_steps) : std::nullopt);
  json["train_iters_per_second"] = Number(rate(&Pace::train_iters));
  json["eval"] = Number(state_.last_eval);
  json["best_eval"] = Number(state_.best_eval);
  json["elapsed_seconds"] = SecondsSinceStart(now_nanos);
  json["left_seconds"] = Number(SecondsLeft(now_nanos));
  json["values"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : options_.values()) json["values"][name] = Number(value);
  json["detail"] = state_.detail;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<double> Progress::SecondsLeft(int64_t now_nanos) const {
  std::optional<double> left;
  const auto note = [&left](std::optional<double> seconds) {
    if (seconds.has_value()) left = std::min(left.value_or(*seconds), *seconds);
  };
  if (std::isfinite(options_.max_seconds)) {
    note(std::max(0.0, options_.max_seconds - SecondsSinceStart(now_nanos)));
  }
  const std::optional<Pace> pace = PaceAt(now_nanos);
  if (!pace.has_value()) return left;
  note(SecondsTo(options_.max_env_step, state_.env_step, pace->env_steps, pace->seconds));
  note(SecondsTo(options_.max_train_iter, state_.train_iter, pace->train_iters, pace->seconds));
  return left;
}

size_t Progress::Columns() const {
  // Some terminals break the line when the last column is written.
  return static_cast<size_t>(std::max(options_.width() - 1, 1));
}

void Progress::DrawOver(const ProgressLine& line) {
  // Blanks, not an escape sequence: every terminal knows them. The line must not break where the
  // terminal is narrower than it was.
  const size_t covered = std::min(drawn_columns_, Columns());
  const size_t blanks = covered > line.columns ? covered - line.columns : 0;
  std::string text = absl::StrCat("\r", line.text, std::string(blanks, ' '));
  if (line.columns == 0) text += '\r';
  options_.write(text);
  drawn_columns_ = line.columns;
}

}  // namespace ding
