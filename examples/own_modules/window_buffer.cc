// A buffer: "window" draws from the newest rows only. It has a buffer of ding_worker as a part and
// passes on everything else; a buffer may as well implement IBuffer without one.
//   replay_buffer { type: "window" params { [type.googleapis.com/own.WindowBufferParams] { window: 500 } } }
#include <algorithm>
#include <memory>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class WindowBuffer : public ding::IBuffer {
 public:
  WindowBuffer(std::unique_ptr<ding::IBuffer> rows, int64_t window)
      : rows_(std::move(rows)), window_(window) {}

  absl::StatusOr<ding::Batch> Sample(int64_t size, int64_t iter,
                                     const ding::SampleOptions& options) override {
    ding::SampleOptions newest = options;
    newest.newest = std::min(options.newest.value_or(window_), window_);
    return rows_->Sample(size, iter, newest);
  }

  absl::Status Push(const ding::SegmentBatch& data, int64_t envstep) override {
    return rows_->Push(data, envstep);
  }
  absl::Status Update(const ding::PriorityInfo& info) override { return rows_->Update(info); }
  void Clear() override { rows_->Clear(); }
  int64_t count() const override { return std::min(rows_->count(), window_); }
  int64_t push_count() const override { return rows_->push_count(); }
  ding::StateSnapshot Snapshot() const override { return rows_->Snapshot(); }
  absl::Status LoadState(ding::StateReader* reader) override { return rows_->LoadState(reader); }

 private:
  const std::unique_ptr<ding::IBuffer> rows_;
  const int64_t window_;
};

absl::StatusOr<std::unique_ptr<ding::IBuffer>> Create(const ding::BufferConfig& config,
                                                      const WindowBufferParams& params,
                                                      const ding::BufferDeps& deps) {
  if (params.window() < 1)
    return absl::InvalidArgumentError("window is below 1, expected at least 1");
  ding::BufferConfig rows = config;
  rows.set_type("naive");
  rows.clear_params();
  DING_ASSIGN_OR_RETURN(auto buffer, ding::create_buffer(rows, deps));
  return std::make_unique<WindowBuffer>(std::move(buffer), params.window());
}

DING_REGISTER(ding::BufferRegistry(), "window", ding::BufferDescriptor{Create},
              "draws from the newest rows only");

}  // namespace
}  // namespace own
