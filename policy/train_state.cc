#include "ding_worker/policy/train_state.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/parameter_state.h"

namespace ding {

template <typename T>
void TrainState::Add(std::function<absl::Status(StateWriter*)> save,
                     std::function<absl::StatusOr<T>(StateReader*)> read,
                     std::function<void(const T&)> apply) {
  parts_.push_back({std::move(save),
                    [read = std::move(read), apply = std::move(apply)](
                        StateReader* reader) -> absl::StatusOr<std::function<void()>> {
                      DING_ASSIGN_OR_RETURN(T value, read(reader));
                      // Shared, because std::function copies what it holds, and an Adam cannot be copied.
                      const auto shared = std::make_shared<const T>(std::move(value));
                      return [apply, shared] { apply(*shared); };
                    }});
}

void TrainState::AddParameters(const std::string& scope, const std::vector<ParameterInfo>& info,
                               absl::Span<float> values) {
  Add<std::vector<float>>(
      [=](StateWriter* writer) { return SaveParameters(info, values, scope, writer); },
      [=](StateReader* reader) -> absl::StatusOr<std::vector<float>> {
        std::vector<float> read(values.size());
        DING_RETURN_IF_ERROR(LoadParameters(info, scope, reader, absl::MakeSpan(read)));
        return read;
      },
      [=](const std::vector<float>& read) { absl::c_copy(read, values.begin()); });
}

void TrainState::AddNetwork(const std::string& scope, Network* network) {
  const absl::Span<const ParameterInfo> info = network->parameter_info();
  AddParameters(scope, {info.begin(), info.end()}, network->parameters());
}

void TrainState::AddAdam(const std::string& scope, Adam* adam) {
  Add<Adam>(
      [=](StateWriter* writer) {
        ScopedStateWriter scoped(writer, scope);
        return adam->SaveState(&scoped);
      },
      [=](StateReader* reader) {
        ScopedStateReader scoped(reader, scope);
        return adam->Read(&scoped);
      },
      [=](const Adam& read) { adam->CopyFrom(read); });
}

void TrainState::AddRng(const std::string& name, Rng* rng) {
  Add<Rng>([=](StateWriter* writer) { return writer->WriteRng(name, *rng); },
           [=](StateReader* reader) -> absl::StatusOr<Rng> {
             Rng read = *rng;
             DING_RETURN_IF_ERROR(reader->ReadRng(name, &read));
             return read;
           },
           [=](const Rng& read) { *rng = read; });
}

void TrainState::AddCount(const std::string& name, int64_t* count) {
  Add<int64_t>([=](StateWriter* writer) { return writer->WriteInt(name, *count); },
               [=](StateReader* reader) { return reader->ReadCount(name); },
               [=](int64_t read) { *count = read; });
}

void TrainState::AddSeed(const std::string& name, uint64_t* seed) {
  Add<int64_t>(
      [=](StateWriter* writer) { return writer->WriteInt(name, static_cast<int64_t>(*seed)); },
      [=](StateReader* reader) { return reader->ReadInt(name); },
      [=](int64_t read) { *seed = static_cast<uint64_t>(read); });
}

void TrainState::AddNumber(const std::string& name, double least, double most,
                           const std::function<double()>& get,
                           const std::function<void(double)>& set) {
  Add<double>([=](StateWriter* writer) { return writer->WriteDouble(name, get()); },
              [=](StateReader* reader) -> absl::StatusOr<double> {
                DING_ASSIGN_OR_RETURN(const double read, reader->ReadDouble(name));
                if (std::isfinite(read) && read >= least && read <= most) return read;
                return absl::InvalidArgumentError(absl::StrCat(
                    "the saved '", name, "' is ", read, ", expected ",
                    std::isfinite(least) ? absl::StrCat(least, " to ", most) : "a finite number"));
              },
              set);
}

absl::Status TrainState::Save(StateWriter* writer) const {
  for (const Part& part : parts_) DING_RETURN_IF_ERROR(part.save(writer));
  return absl::OkStatus();
}

absl::Status TrainState::Load(StateReader* reader) {
  std::vector<std::function<void()>> changes;
  for (const Part& part : parts_) {
    DING_ASSIGN_OR_RETURN(std::function<void()> change, part.read(reader));
    changes.push_back(std::move(change));
  }
  for (const std::function<void()>& change : changes) change();
  return absl::OkStatus();
}

}  // namespace ding
