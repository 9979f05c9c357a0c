// Answers to calls that a listener does not let in.
//
// Ownership: each answer deletes itself when gRPC is done with it.
// Threads:   thread-safe.
#ifndef DING_WORKER_INTERACTION_GRPC_REFUSED_CALLS_H_
#define DING_WORKER_INTERACTION_GRPC_REFUSED_CALLS_H_

#include <functional>
#include <string>
#include <utility>

#include "ding_worker/interaction/grpc/begun_streams.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace ding {

// Answers a peer that is refused.
class Refusal final : public grpc::ServerBidiReactor<link::Frames, link::Frames> {
 public:
  Refusal(grpc::StatusCode code, const std::string& why) { Finish(grpc::Status(code, why)); }
  void OnDone() override { delete this; }
};

// Answers calls of methods that Link does not have. Without it, gRPC would keep these calls open.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(std::function<void(const std::string& peer)> count)
      : count_(std::move(count)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    count_(PeerOfUri(context->peer()));
    return new Answer;
  }

 private:
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    Answer() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method")); }
    void OnDone() override { delete this; }
  };

  const std::function<void(const std::string& peer)> count_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_REFUSED_CALLS_H_
