// SPDX-License-Identifier: Apache-2.0
// ContainerRuntime implemented by CRI calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/image_use.h"
#include "clients/runtime.h"
#include "wire/grpc_call.h"

namespace forestall::clients {

class CriRuntime final : public ContainerRuntime {
 public:
  CriRuntime(std::string socket, RuntimeOptions options);

  Result<RuntimeIdentity> identity() override;
  Result<RuntimeFilesystems> filesystems() override;
  Result<std::vector<ContainerUsage>> container_stats() override;
  Result<DeadRemoval> remove_dead_containers() override;
  Result<ImageRemoval> remove_unused_images() override;
  Result<void> note_images() override;

 private:
  class Removing;

  [[nodiscard]] wire::GrpcReply call(std::string_view service, std::string_view method,
                                     const std::string& question, Duration patience) const;
  // One read-only call; Answer is its response message.
  template <typename Answer, typename Question>
  Result<Answer> call_runtime(std::string_view service, std::string_view method,
                              const Question& question) const;

  // Also notes their ages.
  Result<std::vector<StoredImage>> stored_images() const;
  // The images of containers, and the images of sandboxes.
  Result<ImageReferences> container_references() const;
  Result<ImageReferences> sandbox_references() const;

  const RuntimeOptions options_;
  const wire::GrpcTarget target_;
};

}  // namespace forestall::clients
