#include "ding_worker/policy/schedule_registry.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr absl::string_view kConstant = "constant";
constexpr absl::string_view kWarmUp = "warm_up";

absl::Status CheckFinite(double value, absl::string_view name) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its ", name, " is ", value, ", expected a finite number"));
}

// A schedule whose value is a function of its range.
class Curve : public ISchedule {
 public:
  using Function = double (*)(const ScheduleRange& range, double x);
  Curve(const ScheduleRange& range, Function function) : range_(range), function_(function) {}
  double At(double x) const override {
    // Rounding may lead beyond the ends.
    return std::clamp(function_(range_, x), std::min(range_.start, range_.end),
                      std::max(range_.start, range_.end));
  }

 private:
  const ScheduleRange range_;
  const Function function_;
};

double Linear(const ScheduleRange& range, double x) {
  return range.end + (range.start - range.end) * std::max(1 - x / range.steps, 0.0);
}

double Cosine(const ScheduleRange& range, double x) {
  return range.end + (range.start - range.end) * 0.5 * (1 + std::cos(kPi * x / range.steps));
}

double Exponential(const ScheduleRange& range, double x) {
  return range.start * std::pow(range.end / range.start, x / range.steps);
}

double Step(const ScheduleRange& range, double x) {
  return x < range.steps ? range.start : range.end;
}

double Constant(const ScheduleRange& range, double /*x*/) { return range.start; }

template <Curve::Function function>
absl::StatusOr<std::unique_ptr<ISchedule>> Create(const FieldScheduleConfig& /*config*/,
                                                  const NoParams& /*params*/,
                                                  const ScheduleRange& range) {
  return std::make_unique<Curve>(range, function);
}

absl::StatusOr<std::unique_ptr<ISchedule>> CreateExponential(const FieldScheduleConfig& config,
                                                             const NoParams& none,
                                                             const ScheduleRange& range) {
  if (range.start > 0 && range.end > 0) return Create<Exponential>(config, none, range);
  return absl::InvalidArgumentError(
      absl::StrCat("it goes from ", range.start, " to ", range.end,
                   ", expected two values above 0, because it multiplies: set end, or take type "
                   "'linear' or 'cosine' to reach 0"));
}

absl::StatusOr<std::unique_ptr<ISchedule>> CreateConstant(const FieldScheduleConfig& config,
                                                          const NoParams& none,
                                                          const ScheduleRange& range) {
  if (range.start == range.end) return Create<Constant>(config, none, range);
  return absl::InvalidArgumentError(absl::StrCat("it begins with ", range.start,
                                                 ", but its end is ", range.end,
                                                 ": remove end, or take type 'step'"));
}

DING_REGISTER(ScheduleRegistry(), "linear", Create<Linear>, "moves by equal amounts");
DING_REGISTER(ScheduleRegistry(), "cosine", Create<Cosine>, "half a cosine: slow, fast, slow");
DING_REGISTER(ScheduleRegistry(), "exponential", CreateExponential, "moves by equal factors");
DING_REGISTER(ScheduleRegistry(), "step", Create<Step>,
              "keeps its first value, then jumps to its end");
DING_REGISTER(ScheduleRegistry(), kConstant, CreateConstant, "keeps its first value");
DING_REGISTER(ScheduleRegistry(), kWarmUp, Create<Linear>,
              "rises by equal amounts from 0 to the value of the field");

}  // namespace

ModuleRegistry<ScheduleFactory>& ScheduleRegistry() {
  static auto* const registry = new ModuleRegistry<ScheduleFactory>("schedule");
  return *registry;
}

absl::StatusOr<ScheduleRange> RangeOf(const FieldScheduleConfig& config,
                                      const ScheduleDefaults& defaults) {
  const bool warm_up = config.type() == kWarmUp;
  ScheduleRange range;
  range.start = config.has_start() ? config.start() : warm_up ? 0 : defaults.previous;
  const double end = warm_up ? defaults.field : config.type() == kConstant ? range.start : 0;
  range.end = config.has_end() ? config.end() : end;
  range.steps = config.steps();
  DING_RETURN_IF_ERROR(CheckFinite(range.start, "start"));
  DING_RETURN_IF_ERROR(CheckFinite(range.end, "end"));
  if (range.steps > 0 && std::isfinite(range.steps)) return range;
  const std::string found =
      config.has_steps() ? absl::StrCat("is ", range.steps) : std::string("is not set");
  return absl::InvalidArgumentError(absl::StrCat(
      "its steps ", found, ", so that it never ends: expected a finite number above 0"));
}

}  // namespace ding
