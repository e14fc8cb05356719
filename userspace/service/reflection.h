// SPDX-License-Identifier: Apache-2.0
// gRPC server reflection: the served services, from the descriptors of the messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/grpc_service.h"

namespace forestall::service {

inline constexpr std::string_view kReflectionMethod =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
inline constexpr std::string_view kOldReflectionMethod =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// A stream of requests and answers. `services` are the full names of the services other than
// reflection itself.
[[nodiscard]] std::unique_ptr<wire::GrpcCall> begin_reflection(std::vector<std::string> services);

// The serialized answer to one serialized request; nothing: the request is invalid.
[[nodiscard]] std::optional<std::string> reflect(std::string_view question,
                                                 const std::vector<std::string>& services);

}  // namespace forestall::service
