#include "ding_worker/worker/watch/watch_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/worker/watch/page_files.h"
#include "ding_worker/worker/watch/run_curves.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::ordered_json;

// The lock is held while so much is read of a run: a tenth of a second.
constexpr int64_t kBytesAtOnce = 8 << 20;
constexpr absl::Duration kReadPeriod = absl::Seconds(1);
constexpr absl::Duration kHeartbeat = absl::Seconds(10);
constexpr int kMaxSmooth = 10000;
constexpr int kMaxPoints = 4000;
constexpr int kMaxLogLines = 1000;
constexpr size_t kMaxConfigFields = 5000;

HttpReply Json(const ordered_json& json) {
  // Bytes of strangers may be no UTF-8.
  return {200,
          "application/json",
          json.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
          {}};
}

HttpReply Refuse(absl::string_view message) {
  return {400, "text/plain; charset=utf-8", absl::StrCat(message, "\n"), {}};
}

std::string Parameter(const HttpRequest& request, const std::string& name,
                      absl::string_view otherwise = "") {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::string(otherwise) : found->second;
}

// The name of a metric on the page, whatever its tag counts: "evaluator/reward_mean".
std::string MetricOf(absl::string_view tag) {
  const size_t slash = tag.find('/');
  absl::string_view instance = tag.substr(0, slash);
  if (slash == absl::string_view::npos ||
      !(absl::ConsumeSuffix(&instance, "_step") || absl::ConsumeSuffix(&instance, "_iter"))) {
    return std::string(tag);
  }
  return absl::StrCat(instance, tag.substr(slash));
}

// The tags that a metric may have, for an axis of the page.
std::vector<std::string> TagsOf(absl::string_view metric, absl::string_view x) {
  const size_t slash = metric.find('/');
  if (slash == absl::string_view::npos) return {std::string(metric)};
  const std::string step = absl::StrCat(metric.substr(0, slash), "_step", metric.substr(slash));
  const std::string iter = absl::StrCat(metric.substr(0, slash), "_iter", metric.substr(slash));
  const std::string plain(metric);
  if (x == "step") return {step, plain};
  if (x == "iter") return {iter, plain};
  return {step, iter, plain};
}

CurveOfRun FindMetric(const WatchedRun& run, absl::string_view metric, absl::string_view x) {
  for (const std::string& tag : TagsOf(metric, x)) {
    const CurveOfRun curve = run.FindCurve(tag);
    if (curve.curve != nullptr && !curve.curve->blocks().empty()) return curve;
  }
  return {};
}

// Whether the page shows the last value of a tag: what the stages take, and what a table says.
bool IsShownAsNumber(absl::string_view tag) {
  return absl::StartsWith(tag, "run_") || absl::StartsWith(tag, "replay_buffer") ||
         absl::EndsWith(tag, "/data_time_avg") || absl::EndsWith(tag, "/train_time_avg") ||
         absl::EndsWith(tag, "evaluator_step/reward_mean") ||
         absl::EndsWith(tag, "evaluator_iter/reward_mean");
}

// Runs whose curves become one. Runs of one experiment differ in their seeds.
struct Group {
  std::string name;
  std::vector<size_t> runs;
};

std::vector<Group> MakeGroups(const std::vector<WatchedRun>& runs,
                              const std::vector<size_t>& chosen, bool by_experiment) {
  std::vector<Group> groups;
  std::map<std::string, size_t> of_experiment;
  for (const size_t run : chosen) {
    const std::string& experiment = runs[run].experiment();
    if (!by_experiment || experiment.empty()) {
      groups.push_back({runs[run].name(), {run}});
      continue;
    }
    const auto [group, is_new] = of_experiment.emplace(experiment, groups.size());
    if (is_new) groups.push_back({runs[run].name(), {}});
    groups[group->second].runs.push_back(run);
  }
  for (Group& group : groups) {
    if (group.runs.size() == 1) continue;
    // What their names have in common: "ppo" of "ppo_0" and "ppo_1".
    absl::string_view common = group.name;
    for (const size_t run : group.runs) {
      while (!absl::StartsWith(runs[run].name(), common)) common.remove_suffix(1);
    }
    while (!common.empty() && absl::StrContains("_-./0123456789", common.back())) {
      common.remove_suffix(1);
    }
    group.name = absl::StrCat(common.empty() ? group.name : std::string(common), " (",
                              group.runs.size(), " seeds)");
  }
  return groups;
}

// A list of numbers in JSON. Six digits are more than a picture shows.
void AppendNumbers(const std::vector<double>& values, std::string* json) {
  json->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json->push_back(',');
    if (!std::isfinite(values[i])) {
      json->append("null");
    } else if (values[i] == std::floor(values[i]) && std::abs(values[i]) < 1e15) {
      absl::StrAppend(json, static_cast<int64_t>(values[i]));
    } else {
      absl::StrAppend(json, values[i]);
    }
  }
  json->push_back(']');
}

std::string Text(const std::string& text) {
  return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WatchPage>> WatchPage::Start(const std::vector<std::string>& folders,
                                                            std::unique_ptr<RunControl> control,
                                                            bool orders) {
  auto page = absl::WrapUnique(new WatchPage(folders, std::move(control), orders));
  DING_ASSIGN_OR_RETURN(page->thread_,
                        StartThread("reading runs", [page = page.get()] { page->Read(); }));
  return page;
}

WatchPage::WatchPage(const std::vector<std::string>& folders, std::unique_ptr<RunControl> control,
                     bool orders)
    : control_(std::move(control)), orders_(orders) {
  const std::vector<std::string> names = NameRuns(folders);
  for (size_t i = 0; i < folders.size(); ++i) runs_.emplace_back(folders[i], names[i]);
}

WatchPage::~WatchPage() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void WatchPage::Read() {
  for (;;) {
    bool any = false;
    size_t count = 1;
    for (size_t run = 0; run < count; ++run) {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      count = runs_.size();
      any |= runs_[run].Refresh(kBytesAtOnce);
    }
    MutexLock lock(&mutex_);
    if (any) ++version_;
    const Deadline next = Deadline::After(any ? absl::ZeroDuration() : kReadPeriod);
    while (!stopping_ && !next.Passed()) changed_.WaitUntil(&mutex_, next);
    if (stopping_) return;
  }
}

HttpReply WatchPage::Handle(const HttpRequest& request) {
  const std::string& path = request.path;
  if (path == "/api/state") return State();
  if (path == "/api/curve") return CurveReply(request);
  if (path == "/api/configs") return Configs(request);
  if (path == "/api/log") return Log(request);
  if (path == "/api/events") return Events();
  if (path == "/api/histograms") return Histograms(request);
  if (path == "/api/workers") return Workers(request);
  if (path == "/video") return Video(request);
  const absl::string_view name =
      path == "/" ? "index.html" : absl::StripPrefix(absl::string_view(path), "/");
  const absl::string_view file = PageFile(name);
  if (file.empty()) return HttpReply::NotFound();
  return {200,
          absl::EndsWith(name, ".js")    ? "text/javascript; charset=utf-8"
          : absl::EndsWith(name, ".css") ? "text/css; charset=utf-8"
                                         : "text/html; charset=utf-8",
          std::string(file),
          {}};
}

HttpReply WatchPage::State() {
  MutexLock lock(&mutex_);
  ordered_json state = {{"version", version_}};
  std::set<std::string> metrics;
  bool has_iter = false;
  ordered_json& runs = state["runs"] = ordered_json::array();
  std::map<std::string, size_t> group_of;  // the first run of each experiment
  for (const WatchedRun& run : runs_) {
    double last_step = 0;
    ordered_json numbers = ordered_json::object();
    run.ForEachCurve([&](const std::string& tag, const Curve& curve) {
      if (curve.blocks().empty()) return;
      metrics.insert(MetricOf(tag));
      has_iter |= absl::StrContains(tag, "_iter/");
      last_step = std::max(last_step, curve.blocks().back().step);
      if (IsShownAsNumber(tag)) numbers[MetricOf(tag)] = curve.blocks().back().mean();
    });
    const size_t number = runs.size();
    const size_t group = run.experiment().empty()
                             ? number
                             : group_of.emplace(run.experiment(), number).first->second;
    runs.push_back({{"name", run.name()},
                    {"folder", run.folder()},
                    {"state", run.State(Clock::Real()->Now())},
                    {"ended", run.ended()},
                    {"damage", run.damage()},
                    {"group", group},
                    {"step", last_step},
                    {"numbers", std::move(numbers)},
                    {"logs", run.ListLogs()},
                    {"videos", run.ListVideos()}});
  }
  state["metrics"] = metrics;
  state["has_iter"] = has_iter;
  state["orders"] = orders_;
  return Json(state);
}

HttpReply WatchPage::CurveReply(const HttpRequest& request) {
  const std::string metric = Parameter(request, "metric");
  const std::string x = Parameter(request, "x", "step");
  CurveView view;
  view.axis = x == "seconds" ? CurveAxis::kSeconds : CurveAxis::kStep;
  view.max_points = 1000;
  if (x != "step" && x != "iter" && x != "seconds") {
    return Refuse("x: expected step, iter or seconds");
  }
  if (!absl::SimpleAtoi(Parameter(request, "smooth", "1"), &view.smooth) || view.smooth < 1 ||
      view.smooth > kMaxSmooth) {
    return Refuse(absl::StrCat("smooth: expected a number from 1 to ", kMaxSmooth));
  }
  if (!absl::SimpleAtoi(Parameter(request, "points", "1000"), &view.max_points) ||
      view.max_points < 2 || view.max_points > kMaxPoints) {
    return Refuse(absl::StrCat("points: expected a number from 2 to ", kMaxPoints));
  }
  if (!absl::SimpleAtod(Parameter(request, "from", "-inf"), &view.from) ||
      !absl::SimpleAtod(Parameter(request, "to", "inf"), &view.to)) {
    return Refuse("from, to: expected numbers");
  }
  const std::string numbers = Parameter(request, "runs", "all");
  std::vector<Group> groups;
  std::vector<std::string> names;
  CurveTable table;
  {
    MutexLock lock(&mutex_);
    std::vector<size_t> chosen;
    for (size_t run = 0; run < runs_.size() && numbers == "all"; ++run) chosen.push_back(run);
    if (numbers != "all") {
      for (const absl::string_view word : absl::StrSplit(numbers, ',', absl::SkipEmpty())) {
        size_t run = 0;
        if (!absl::SimpleAtoi(word, &run) || run >= runs_.size()) {
          return Refuse(absl::StrCat("runs: expected numbers below ", runs_.size()));
        }
        chosen.push_back(run);
      }
    }
    groups = MakeGroups(runs_, chosen, Parameter(request, "group") == "1");
    std::vector<std::vector<CurveOfRun>> curves;
    for (Group& group : groups) {
      curves.emplace_back();
      for (const size_t run : group.runs) {
        curves.back().push_back(FindMetric(runs_[run], metric, x));
      }
    }
    table = SampleCurves(curves, view);
  }
  HttpReply reply = {200, "application/json", "{\"x\":", {}};
  AppendNumbers(table.x, &reply.body);
  reply.body += ",\"series\":[";
  for (size_t i = 0; i < groups.size(); ++i) {
    const CurveTable::Series& series = table.series[i];
    absl::StrAppend(&reply.body, i > 0 ? "," : "", "{\"name\":", Text(groups[i].name),
                    ",\"run\":", groups[i].runs.front(), ",\"mid\":");
    AppendNumbers(series.mid, &reply.body);
    reply.body += ",\"low\":";
    AppendNumbers(series.low, &reply.body);
    reply.body += ",\"high\":";
    AppendNumbers(series.high, &reply.body);
    reply.body += "}";
  }
  reply.body += "]}";
  return reply;
}

HttpReply WatchPage::Configs(const HttpRequest& request) {
  const bool all = Parameter(request, "all") == "1";
  MutexLock lock(&mutex_);
  std::set<std::string> paths;
  for (const WatchedRun& run : runs_) {
    for (const auto& [path, value] : run.config()) paths.insert(path);
  }
  ordered_json rows = ordered_json::array();
  for (const std::string& path : paths) {
    if (rows.size() == kMaxConfigFields) break;
    std::vector<std::string> values;
    for (const WatchedRun& run : runs_) {
      const auto found = run.config().find(path);
      values.push_back(found == run.config().end() ? "" : found->second);
    }
    const bool same = std::all_of(values.begin(), values.end(),
                                  [&values](const std::string& v) { return v == values[0]; });
    if (all || !same) rows.push_back({{"path", path}, {"values", values}});
  }
  return Json({{"rows", std::move(rows)}});
}

WatchedRun* WatchPage::RunOf(const HttpRequest& request) {
  size_t run = 0;
  const bool given = absl::SimpleAtoi(Parameter(request, "run"), &run);
  return given && run < runs_.size() ? &runs_[run] : nullptr;
}

HttpReply WatchPage::Log(const HttpRequest& request) {
  MutexLock lock(&mutex_);
  const WatchedRun* const run = RunOf(request);
  if (run == nullptr) return HttpReply::NotFound();
  const auto text =
      run->TailLog(Parameter(request, "log"), Parameter(request, "filter"), kMaxLogLines);
  if (!text.ok())
    return {404, "text/plain; charset=utf-8", std::string(text.status().message()), {}};
  return HttpReply::Text(*text);
}

HttpReply WatchPage::Video(const HttpRequest& request) {
  MutexLock lock(&mutex_);
  const WatchedRun* const run = RunOf(request);
  if (run == nullptr) return HttpReply::NotFound();
  const std::string name = Parameter(request, "name");
  auto video = run->ReadVideo(name);
  if (!video.ok()) return HttpReply::NotFound();
  return {200, absl::EndsWith(name, ".mp4") ? "video/mp4" : "image/gif", *std::move(video), {}};
}

HttpReply WatchPage::Histograms(const HttpRequest& request) {
  MutexLock lock(&mutex_);
  WatchedRun* const run = RunOf(request);
  if (run == nullptr) return HttpReply::NotFound();
  const std::string tag = Parameter(request, "tag");
  if (tag.empty()) {
    const absl::StatusOr<bool> more = run->ReadHistograms(kBytesAtOnce);
    ordered_json tags = ordered_json::array();
    for (const auto& [name, histograms] : run->histograms()) tags.push_back(name);
    return Json({{"more", more.value_or(false)},
                 {"damage", std::string(more.status().message())},
                 {"tags", std::move(tags)}});
  }
  const auto found = run->histograms().find(tag);
  if (found == run->histograms().end()) return HttpReply::NotFound();
  HttpReply reply = {200, "application/json", "{\"histograms\":[", {}};
  for (const RunHistogram& histogram : found->second) {
    absl::StrAppend(&reply.body, &histogram == &found->second.front() ? "" : ",",
                    "{\"step\":", histogram.step, ",\"edges\":");
    AppendNumbers(histogram.edges, &reply.body);
    reply.body += ",\"counts\":";
    AppendNumbers(histogram.counts, &reply.body);
    reply.body += "}";
  }
  reply.body += "]}";
  return reply;
}

HttpReply WatchPage::Workers(const HttpRequest& request) {
  std::string folder;
  // Fields of the config that the status of a run does not have.
  ordered_json reply = {{"lease_seconds", "system.coordinator.lease_seconds"},
                        {"capacity", "policy.other.replay_buffer.replay_buffer_size"}};
  {
    MutexLock lock(&mutex_);
    const WatchedRun* const run = RunOf(request);
    if (run == nullptr) return HttpReply::NotFound();
    if (run->ended()) return Json(ordered_json::object());
    folder = run->folder();
    for (ordered_json& field : reply) {
      const auto found = run->config().find(field.get<std::string>());
      double value = 0;
      const bool known =
          found != run->config().end() && absl::SimpleAtod(found->second, &value) && value > 0;
      field = known ? ordered_json(value) : ordered_json();
    }
  }
  const auto status = ordered_json::parse(control_ == nullptr ? "{}" : control_->Status(folder));
  if (status.empty()) return Json(status);
  reply.update(status);
  return Json(reply);
}

HttpReply WatchPage::HandlePost(const HttpRequest& request) {
  if (request.role != "operator") return HttpReply::WrongToken();
  // An order names the folder: after a restart with other runs, a number would mean another run.
  const std::string folder = Parameter(request, "folder");
  {
    MutexLock lock(&mutex_);
    const bool known = std::any_of(runs_.begin(), runs_.end(), [&folder](const WatchedRun& run) {
      return run.folder() == folder;
    });
    if (!known || control_ == nullptr || request.path != "/api/order") return HttpReply::NotFound();
  }
  std::vector<std::string> words = {Parameter(request, "order")};
  if (request.query.count("argument") > 0) words.push_back(Parameter(request, "argument"));
  return control_->Order(folder, words, request);
}

HttpReply WatchPage::Events() {
  HttpReply reply = {200, "text/event-stream", "", {}};
  // At most one event a second, and a comment now and then, by which a lost caller is noticed.
  struct Sent {
    int64_t version = -1;
    Deadline next = Deadline::After(absl::ZeroDuration());
    Deadline heartbeat = Deadline::After(kHeartbeat);
  };
  auto sent = std::make_shared<Sent>();
  reply.next = [this, sent]() -> std::optional<std::string> {
    MutexLock lock(&mutex_);
    if (sent->version != version_ && sent->next.Passed()) {
      *sent = {version_, Deadline::After(kReadPeriod), Deadline::After(kHeartbeat)};
      return absl::StrCat("data: ", version_, "\n\n");
    }
    if (!sent->heartbeat.Passed()) return "";
    sent->heartbeat = Deadline::After(kHeartbeat);
    return ":\n\n";
  };
  return reply;
}

}  // namespace ding
