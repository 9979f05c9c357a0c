#include "ding_worker/worker/coordination/parallel_run_folder.h"

#include <unistd.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr absl::Duration kStorePatience = absl::Seconds(15);
constexpr absl::Duration kStoreRetry = absl::Milliseconds(200);
constexpr size_t kMaxNameBytes = 100;
// Keys in the store.
constexpr char kStoredInfo[] = "run/info";
constexpr char kStoredConfig[] = "run/config";

// The name becomes a part of URLs and of names of folders.
std::string RunName(const std::string& exp_dir) {
  std::string name(Basename(exp_dir).substr(0, kMaxNameBytes));
  for (char& c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (!plain && c != '.') c = '_';
  }
  return absl::StrCat(name, "-", absl::ToUnixMicros(Clock::Real()->Now()), "-", getpid());
}

// Returns the URL `base` with the folder `run` appended.
std::string StoreUrl(const std::string& base, const std::string& run) {
  const size_t settings = base.find('?');
  return settings == std::string::npos
             ? absl::StrCat(base, "/", run)
             : absl::StrCat(base.substr(0, settings), "/", run, base.substr(settings));
}

}  // namespace

std::string ResultPath(const std::string& exp_dir) { return JoinPath(exp_dir, run_files::kResult); }

absl::StatusOr<std::string> ReadRunConfig(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, run_files::kConfig));
}

absl::StatusOr<std::string> ReadRunAddress(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, run_files::kAddress));
}

absl::StatusOr<ParallelRunInfo> ReadRunInfo(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, run_files::kInfo);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(absl::StrCat("there is no parallel run to go on with in '", exp_dir,
                                            "': ", text.status().message()));
  }
  ParallelRunInfo info;
  if (google::protobuf::TextFormat::ParseFromString(*text, &info)) return info;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

absl::StatusOr<SavedRun> ReadSavedRun(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, run_files::kSaved);
  DING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  SavedRun saved;
  if (google::protobuf::TextFormat::ParseFromString(text, &saved)) return saved;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

std::string PrintRunFile(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

ParallelRunInfo NameRun(const std::string& exp_dir, const std::string& store_url) {
  ParallelRunInfo info;
  info.set_run(RunName(exp_dir));
  if (store_url.empty()) {
    info.set_memory(JoinPath(RunMemoryBase(), info.run()));
    info.set_store_url(absl::StrCat("file:", info.memory()));
  } else {
    info.set_store_url(StoreUrl(store_url, info.run()));
  }
  return info;
}

std::string RunMemoryBase() { return absl::StrCat("/dev/shm/ding_worker-", geteuid()); }

std::string DescribePlace(const ParallelRunInfo& info) {
  return info.memory().empty()
             ? info.store_url()
             : absl::StrCat(info.memory(),
                            ", memory of this machine, which is lost when it goes "
                            "down; to give them up: rm -r ",
                            ShellWord(info.memory()));
}

std::string ResumeCommand(const std::string& exp_dir) { return ResumeCommand("parallel", exp_dir); }

absl::Status PutDescription(const ParallelRunInfo& info, const ExperimentConfig& config,
                            Store* store) {
  DING_RETURN_IF_ERROR(store->Put(kStoredInfo, {absl::string_view(PrintRunFile(info))}));
  return store->Put(kStoredConfig, {absl::string_view(PrintTextConfig(config))});
}

absl::StatusOr<StoredDescription> GetDescription(const std::string& store_url) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(store_url));
  StoredDescription description;
  std::string info_text;
  const std::string what = absl::StrCat("there is no run to go on with in ", store_url);
  DING_RETURN_IF_ERROR(Annotate(store->Get(kStoredInfo, &info_text), what));
  DING_RETURN_IF_ERROR(Annotate(store->Get(kStoredConfig, &description.config), what));
  if (!google::protobuf::TextFormat::ParseFromString(info_text, &description.info)) {
    return absl::DataLossError(absl::StrCat("'", kStoredInfo, "' in ", store_url, " is damaged"));
  }
  return description;
}

absl::Status RetryWhileStoreIsAway(const std::function<absl::Status()>& act) {
  const Timer waited(Clock::Real());
  while (true) {
    absl::Status done = act();
    const bool away = absl::IsUnavailable(done) || absl::IsUnauthenticated(done);
    if (!away || waited.Elapsed() > kStorePatience) return done;
    absl::SleepFor(kStoreRetry);
  }
}

}  // namespace ding
