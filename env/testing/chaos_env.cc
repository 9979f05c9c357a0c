#include "ding_worker/env/testing/chaos_env.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

using google::protobuf::FieldDescriptor;

absl::Status CheckConfig(const ChaosConfig& config) {
  std::vector<std::string> problems;
  CheckRanges(config, "", &problems);
  if (config.at_step() == 0 && config.fault() == ChaosConfig::ABNORMAL) {
    problems.emplace_back("at_step is 0, but a reset cannot be abnormal");
  }
  return ProblemsToStatus(problems, "env 'chaos'");
}

// Returns `config` with the values that the parameters of a reset replace.
absl::StatusOr<ChaosConfig> WithParams(ChaosConfig config, const NamedValues& params) {
  const google::protobuf::Reflection* const reflection = config.GetReflection();
  for (const auto& [name, value] : params) {
    const FieldDescriptor* const field = config.GetDescriptor()->FindFieldByName(name);
    const auto number = static_cast<int64_t>(value);
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return absl::InvalidArgumentError(
          absl::StrCat("env 'chaos': parameter '", name, "' is not a number field of ChaosConfig"));
    }
    if (name == "episode_length") {
      return absl::InvalidArgumentError(
          "env 'chaos': parameter 'episode_length' is part of the spec; a reset cannot change it");
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection->SetDouble(&config, field, value);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection->SetInt64(&config, field, number);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection->SetInt32(&config, field, static_cast<int32_t>(number));
    } else if (ChaosConfig::Fault_IsValid(static_cast<int>(number))) {
      config.set_fault(static_cast<ChaosConfig::Fault>(number));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("env 'chaos': there is no fault ", value));
    }
  }
  DING_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

// Restores the default action of the signal first: a sanitizer's handler would report it and exit.
void KillSelf(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void BurnCpu(int64_t microseconds) {
  const auto cpu_us = [] {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * int64_t{1000000} + now.tv_nsec / 1000;
  };
  for (const int64_t end = cpu_us() + microseconds; cpu_us() < end;) {
  }
}

class ChaosEnv : public Env {
 public:
  ChaosEnv(EnvSpec spec, ChaosConfig config)
      : spec_(std::move(spec)), defaults_(std::move(config)), config_(defaults_) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_ASSIGN_OR_RETURN(config_, WithParams(defaults_, start.params));
    ++episode_;
    step_ = 0;
    Show(-1, obs);
    StepResult unused;
    return Strike(obs, &unused);
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    if (config_.burn_us() > 0) BurnCpu(config_.burn_us());
    Show(action.scalar<int64_t>(0), obs);
    result->reward = 1;
    result->truncated = step_ == config_.episode_length();
    return Strike(obs, result);
  }

 private:
  void Show(int64_t action, const RowRef& obs) const {
    obs.field<float>(0)[0] = static_cast<float>(step_);
    obs.field<float>(0)[1] = static_cast<float>(action);
  }

  bool IsTime() const {
    if (config_.fault() == ChaosConfig::NONE || step_ != config_.at_step()) return false;
    if (config_.at_episode() != 0 && episode_ != config_.at_episode()) return false;
    if (config_.once_file().empty()) return true;
    const int file =
        open(config_.once_file().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (file >= 0) close(file);
    return file >= 0;
  }

  absl::Status Strike(const RowRef& obs, StepResult* result) {
    if (!IsTime()) return absl::OkStatus();
    if (config_.has_last_words()) {
      const std::string line = config_.last_words() + "\n";
      // Unbuffered, because buffers are lost with the process.
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    }
    switch (config_.fault()) {
      case ChaosConfig::NONE:
        break;
      case ChaosConfig::SEGFAULT:
        KillSelf(SIGSEGV);
        break;
      case ChaosConfig::ABORT:
        KillSelf(SIGABRT);
        break;
      case ChaosConfig::KILL:
        std::raise(SIGKILL);
        break;
      case ChaosConfig::EXIT:
        std::_Exit(config_.exit_status());
      case ChaosConfig::HANG:
        absl::SleepFor(absl::Seconds(config_.hang_seconds()));
        break;
      case ChaosConfig::HOG:
        hoard_.emplace_back(static_cast<size_t>(config_.hog_mb()) << 20, '\1');
        break;
      case ChaosConfig::SHOW_NAN:
        obs.field<float>(0)[1] = std::numeric_limits<float>::quiet_NaN();
        break;
      case ChaosConfig::ERROR:
        return absl::UnavailableError("chaos: an error");
      case ChaosConfig::THROW:
        throw std::runtime_error("chaos: an exception");
      case ChaosConfig::ABNORMAL:
        result->abnormal = true;
        break;
    }
    return absl::OkStatus();
  }

  const EnvSpec spec_;
  const ChaosConfig defaults_;
  ChaosConfig config_;  // the config of this episode
  int64_t episode_ = 0;
  int64_t step_ = 0;
  std::vector<std::string> hoard_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Env>> CreateChaosEnv(const ChaosConfig& config) {
  DING_RETURN_IF_ERROR(CheckConfig(config));
  EnvSpec spec;
  spec.name = "chaos";
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {2})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
  spec.max_episode_steps = config.episode_length();
  return std::make_unique<ChaosEnv>(std::move(spec), config);
}

}  // namespace ding
