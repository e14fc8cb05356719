// SPDX-License-Identifier: Apache-2.0
// gRPC server reflection: what is served, from the descriptors that the messages are built with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exports/grpc_service.h"

namespace forestall::api {

inline constexpr std::string_view kReflectionMethod =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
inline constexpr std::string_view kOldReflectionMethod =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// A stream of questions and answers. `services` are the full names of what is served besides
// reflection itself.
[[nodiscard]] std::unique_ptr<exports::GrpcCall> begin_reflection(
    std::vector<std::string> services);

// The answer to one serialized question, serialized; nothing: it is no question.
[[nodiscard]] std::optional<std::string> reflect(std::string_view question,
                                                 const std::vector<std::string>& services);

}  // namespace forestall::api
