// SPDX-License-Identifier: Apache-2.0
#include "service/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "grpc/reflection/v1/reflection.pb.h"

namespace forestall::service {
namespace {

namespace rpc = ::grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;

constexpr std::string_view kPackage = "grpc.reflection.v1";
constexpr std::string_view kOldPackage = "grpc.reflection.v1alpha";
constexpr const char* kFile = "grpc/reflection/v1/reflection.proto";
constexpr const char* kOldFile = "grpc/reflection/v1alpha/reflection.proto";

const DescriptorPool& pool() {
  return *DescriptorPool::generated_pool();
}

// The file and all its imports, each once, importers first.
void collect(const FileDescriptor& file, std::vector<const FileDescriptor*>& all) {
  if (std::ranges::find(all, &file) != all.end()) return;
  all.push_back(&file);
  for (int i = 0; i < file.dependency_count(); ++i) collect(*file.dependency(i), all);
}

std::string moved(const std::string& type) {
  const std::string from = "." + std::string(kPackage) + ".";
  return "." + std::string(kOldPackage) + "." + type.substr(from.size());
}

// v1alpha differs from v1 only in its name.
std::string old_reflection() {
  FileDescriptorProto file;
  pool().FindFileByName(kFile)->CopyTo(&file);
  file.set_name(kOldFile);
  file.set_package(std::string(kOldPackage));
  for (auto& message : *file.mutable_message_type()) {
    for (auto& field : *message.mutable_field()) {
      if (field.has_type_name()) field.set_type_name(moved(field.type_name()));
    }
  }
  for (auto& method : *file.mutable_service(0)->mutable_method()) {
    method.set_input_type(moved(method.input_type()));
    method.set_output_type(moved(method.output_type()));
  }
  return file.SerializeAsString();
}

void add_file(const FileDescriptor& file, rpc::FileDescriptorResponse& answer) {
  std::vector<const FileDescriptor*> all;
  collect(file, all);
  for (const FileDescriptor* each : all) {
    FileDescriptorProto proto;
    each->CopyTo(&proto);
    *answer.add_file_descriptor_proto() = proto.SerializeAsString();
  }
}

void refuse(rpc::ServerReflectionResponse& answer, wire::GrpcStatus status, std::string why) {
  answer.mutable_error_response()->set_error_code(static_cast<std::int32_t>(status));
  answer.mutable_error_response()->set_error_message(std::move(why));
}

void answer_file(const FileDescriptor* file, bool is_old, const std::string& request,
                 rpc::ServerReflectionResponse& answer) {
  if (is_old) {
    *answer.mutable_file_descriptor_response()->add_file_descriptor_proto() = old_reflection();
  } else if (file != nullptr) {
    add_file(*file, *answer.mutable_file_descriptor_response());
  } else {
    refuse(answer, wire::GrpcStatus::not_found, "unknown file or symbol: " + request);
  }
}

bool is_old_symbol(std::string_view symbol) {
  return symbol.starts_with(kOldPackage) && symbol.substr(kOldPackage.size()).starts_with('.') &&
         pool().FindFileContainingSymbol(
             std::string(kPackage).append(symbol.substr(kOldPackage.size()))) != nullptr;
}

class ReflectionCall final : public wire::GrpcCall {
 public:
  explicit ReflectionCall(std::vector<std::string> services) : services_(std::move(services)) {}

  void take(std::string_view message) override {
    if (auto answer = reflect(message, services_)) {
      answer_ = wire::make_frame(*answer);
    } else {
      nonsense_ = true;
    }
  }
  void requests_end() override { ended_ = true; }
  wire::GrpcStep next() override {
    if (answer_ != nullptr) return wire::GrpcStep::message(std::exchange(answer_, nullptr));
    if (nonsense_) {
      return wire::GrpcStep::end(wire::GrpcStatus::invalid_argument,
                                 "the request is not a valid ServerReflectionRequest");
    }
    return ended_ ? wire::GrpcStep::end() : wire::GrpcStep::wait();
  }

 private:
  const std::vector<std::string> services_;
  wire::GrpcFrame answer_;
  bool nonsense_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<wire::GrpcCall> begin_reflection(std::vector<std::string> services) {
  return std::make_unique<ReflectionCall>(std::move(services));
}

std::optional<std::string> reflect(std::string_view question,
                                   const std::vector<std::string>& services) {
  using Request = rpc::ServerReflectionRequest;
  Request request;
  if (!request.ParseFromArray(question.data(), static_cast<int>(question.size()))) {
    return std::nullopt;
  }
  rpc::ServerReflectionResponse answer;
  answer.set_valid_host(request.host());
  *answer.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kListServices:
      for (const std::string& each : services) {
        answer.mutable_list_services_response()->add_service()->set_name(each);
      }
      for (const std::string_view package : {kPackage, kOldPackage}) {
        answer.mutable_list_services_response()->add_service()->set_name(std::string(package) +
                                                                         ".ServerReflection");
      }
      break;
    case Request::kFileByFilename:
      answer_file(pool().FindFileByName(request.file_by_filename()),
                  request.file_by_filename() == kOldFile, request.file_by_filename(), answer);
      break;
    case Request::kFileContainingSymbol:
      answer_file(pool().FindFileContainingSymbol(request.file_containing_symbol()),
                  is_old_symbol(request.file_containing_symbol()), request.file_containing_symbol(),
                  answer);
      break;
    case Request::kAllExtensionNumbersOfType:
      if (pool().FindMessageTypeByName(request.all_extension_numbers_of_type()) == nullptr) {
        refuse(answer, wire::GrpcStatus::not_found,
               "unknown message type: " + request.all_extension_numbers_of_type());
      } else {
        answer.mutable_all_extension_numbers_response()->set_base_type_name(
            request.all_extension_numbers_of_type());
      }
      break;
    case Request::kFileContainingExtension:
      refuse(answer, wire::GrpcStatus::not_found, "no message has extensions");
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      refuse(answer, wire::GrpcStatus::invalid_argument, "the request is empty");
      break;
  }
  return answer.SerializeAsString();
}

}  // namespace forestall::service
