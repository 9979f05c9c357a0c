#include "ding_worker/worker/config/any_content.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

}  // namespace

std::string TypeNameOfAny(const Any& any) {
  const size_t slash = any.type_url().rfind('/');
  return slash == std::string::npos ? any.type_url() : any.type_url().substr(slash + 1);
}

const Descriptor* TypeOfAny(const Any& any) {
  return DescriptorPool::generated_pool()->FindMessageTypeByName(TypeNameOfAny(any));
}

std::unique_ptr<Message> NewMessage(const Descriptor& descriptor) {
  return std::unique_ptr<Message>(
      MessageFactory::generated_factory()->GetPrototype(&descriptor)->New());
}

absl::StatusOr<std::unique_ptr<Message>> UnpackAny(const Any& any) {
  const std::string name = TypeNameOfAny(any);
  const Descriptor* const descriptor = TypeOfAny(any);
  if (descriptor == nullptr) {
    return absl::InvalidArgumentError(
        name.empty()
            ? std::string("params is empty")
            : absl::StrCat("params is of type '", name, "', which this program does not know"));
  }
  std::unique_ptr<Message> message = NewMessage(*descriptor);
  if (!message->ParseFromString(any.value())) {
    return absl::InvalidArgumentError(absl::StrCat("its content is not a valid ", name));
  }
  return message;
}

}  // namespace ding
