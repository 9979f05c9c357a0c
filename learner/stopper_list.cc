#include "ding_worker/learner/stopper_list.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kCount[] = "count";
constexpr char kWhy[] = "why";

std::string ConfigName(int64_t i) { return absl::StrCat("config/", i); }
std::string ScopeOf(int64_t i) { return absl::StrCat("stopper/", i); }

}  // namespace

absl::StatusOr<StopperList> StopperList::Create(
    const google::protobuf::RepeatedPtrField<StopperConfig>& configs, const StopperDeps& deps) {
  StopperList list;
  std::vector<std::string> problems;
  for (const StopperConfig& config : configs) {
    absl::StatusOr<std::unique_ptr<IStopper>> made = create_stopper(config, deps);
    std::string name = absl::StrCat("stopper '", config.type(), "'");
    if (made.ok()) {
      list.stoppers_.push_back({std::move(name), config.SerializeAsString(), *std::move(made)});
    } else {
      problems.push_back(absl::StrCat(name, ": ", made.status().message()));
    }
  }
  if (problems.empty()) return list;
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

absl::Status StopperList::Ask(const RunMoment& now) {
  for (const Entry& entry : stoppers_) {
    if (!why_.empty()) break;
    DING_ASSIGN_OR_RETURN(const std::string why,
                          CallUser(entry.name, [&]() -> absl::StatusOr<std::string> {
                            return entry.stopper->WhyStop(now);
                          }));
    if (!why.empty()) why_ = absl::StrCat(entry.name, ": ", why);
  }
  return absl::OkStatus();
}

absl::Status StopperList::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt(kCount, static_cast<int64_t>(stoppers_.size())));
  if (!why_.empty()) DING_RETURN_IF_ERROR(writer->WriteString(kWhy, why_));
  for (size_t i = 0; i < stoppers_.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    DING_RETURN_IF_ERROR(writer->WriteString(ConfigName(index), stoppers_[i].config));
    ScopedStateWriter scope(writer, ScopeOf(index));
    DING_RETURN_IF_ERROR(
        Annotate(CallUser("SaveState()", [&] { return stoppers_[i].stopper->SaveState(&scope); }),
                 stoppers_[i].name));
  }
  return absl::OkStatus();
}

absl::Status StopperList::LoadState(StateReader* reader) {
  if (!reader->Info(kCount).ok()) return absl::OkStatus();  // from before there were stoppers
  DING_ASSIGN_OR_RETURN(const int64_t count, reader->ReadInt(kCount));
  bool all_same = count == static_cast<int64_t>(stoppers_.size());
  std::vector<bool> taken(stoppers_.size(), false);
  for (int64_t i = 0; i < count; ++i) {
    DING_ASSIGN_OR_RETURN(const std::string config, reader->ReadString(ConfigName(i)));
    bool found = false;
    for (size_t own = 0; own < stoppers_.size() && !found; ++own) {
      if (taken[own] || stoppers_[own].config != config) continue;
      found = taken[own] = true;
      ScopedStateReader scope(reader, ScopeOf(i));
      DING_RETURN_IF_ERROR(Annotate(
          CallUser("LoadState()", [&] { return stoppers_[own].stopper->LoadState(&scope); }),
          stoppers_[own].name));
    }
    all_same = all_same && found;
  }
  if (all_same && reader->Info(kWhy).ok()) {
    DING_ASSIGN_OR_RETURN(why_, reader->ReadString(kWhy));
  }
  DING_LOG_IF(INFO, !all_same) << "other stoppers than before: those that are new begin anew";
  return absl::OkStatus();
}

}  // namespace ding
