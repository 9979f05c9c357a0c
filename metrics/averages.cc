#include "ding_worker/metrics/averages.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

WindowAverage::WindowAverage(int window) : window_(static_cast<size_t>(window)) {
  DING_CHECK(window >= 1) << "window " << window;
}

void WindowAverage::Add(double value) {
  if (values_.size() < window_) {
    values_.push_back(value);
    return;
  }
  values_[oldest_] = value;
  oldest_ = (oldest_ + 1) % window_;
}

std::optional<double> WindowAverage::Average() const {
  if (values_.empty()) return std::nullopt;
  // Sum again each time: a running sum would drift, and would keep a NaN for ever. Begin with the
  // oldest value, so that equal values give equal bits at any position of the ring.
  const auto oldest = values_.begin() + static_cast<std::ptrdiff_t>(oldest_);
  const double sum =
      std::accumulate(values_.begin(), oldest, std::accumulate(oldest, values_.end(), 0.0));
  return sum / static_cast<double>(values_.size());
}

std::vector<double> WindowAverage::Values() const {
  std::vector<double> values = values_;
  std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(oldest_), values.end());
  return values;
}

Monitor::Monitor(int window) : window_(window) { DING_CHECK(window >= 1) << "window " << window; }

void Monitor::Declare(absl::string_view name) {
  if (Find(entries_, name) != nullptr) return;
  entries_.push_back({std::string(name), WindowAverage(window_)});
}

void Monitor::Add(absl::string_view name, double value) {
  Declare(name);
  const_cast<Entry*>(Find(entries_, name))->window.Add(value);
}

std::optional<double> Monitor::Average(absl::string_view name) const {
  const Entry* const entry = Find(seen(), name);
  return entry == nullptr ? std::nullopt : entry->window.Average();
}

std::vector<std::pair<std::string, std::optional<double>>> Monitor::Averages() const {
  std::vector<std::pair<std::string, std::optional<double>>> averages;
  for (const Entry& entry : seen()) averages.emplace_back(entry.name, entry.window.Average());
  return averages;
}

std::vector<double> Monitor::Values(absl::string_view name) const {
  const Entry* const entry = Find(seen(), name);
  return entry == nullptr ? std::vector<double>() : entry->window.Values();
}

void Monitor::RegisterAttributeValue(absl::string_view attribute, absl::string_view property,
                                     AttributeFn value) {
  DING_CHECK(value != nullptr) << "attribute '" << attribute << "' of '" << property << "'";
  for (Attribute& known : attributes_) {
    if (known.attribute != attribute || known.property != property) continue;
    known.value = std::move(value);
    return;
  }
  attributes_.push_back({std::string(attribute), std::string(property), std::move(value)});
}

absl::StatusOr<double> Monitor::GetAttribute(absl::string_view attribute,
                                             absl::string_view property) const {
  for (const Attribute& known : attributes_) {
    if (known.attribute != attribute || known.property != property) continue;
    if (const std::optional<double> value = known.value(*this)) return *value;
    return absl::FailedPreconditionError(
        absl::StrCat("attribute '", attribute, "' of '", property, "' has no value yet"));
  }
  return absl::NotFoundError(
      absl::StrCat("no attribute '", attribute, "' of '", property, "' is registered"));
}

std::vector<std::pair<std::string, double>> Monitor::Attributes() const {
  std::vector<std::pair<std::string, double>> values;
  for (const Attribute& known : attributes_) {
    if (const std::optional<double> value = known.value(*this)) {
      values.emplace_back(absl::StrCat(known.property, "_", known.attribute), *value);
    }
  }
  return values;
}

absl::Status Monitor::SaveState(StateWriter* writer) const {
  for (const Entry& entry : entries_) {
    const std::vector<double> values = entry.window.Values();
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>(entry.name, values));
  }
  return absl::OkStatus();
}

absl::Status Monitor::LoadState(StateReader* reader) {
  Monitor loaded(window_);
  loaded.attributes_ = attributes_;
  loaded.time_ = time_;
  for (const Entry& entry : entries_) loaded.Declare(entry.name);
  for (const std::string& name : reader->Names()) {
    DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(name));
    if (info.shape.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("monitored values '", name, "': got shape ",
                                                     ShapeString(info.shape),
                                                     ", expected one dimension"));
    }
    std::vector<double> values(static_cast<size_t>(info.shape[0]));
    DING_RETURN_IF_ERROR(reader->ReadSpan<double>(name, absl::MakeSpan(values)));
    loaded.Declare(name);
    for (const double value : values) loaded.Add(name, value);
  }
  *this = std::move(loaded);
  return absl::OkStatus();
}

const Monitor::Entry* Monitor::Find(const std::vector<Entry>& entries, absl::string_view name) {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [name](const Entry& entry) { return entry.name == name; });
  return it == entries.end() ? nullptr : &*it;
}

}  // namespace ding
