// SPDX-License-Identifier: Apache-2.0
#include "fake_runtime.h"

#include <filesystem>
#include <stdexcept>

namespace forestall::test {

using grpc::ServerContext;

class FakeRuntime::Pods final : public cri::RuntimeService::Service {
 public:
  explicit Pods(FakeRuntime& fake) : fake_(fake) {}

  grpc::Status Version(ServerContext* call, const cri::VersionRequest*,
                       cri::VersionResponse* answer) override {
    *answer = fake_.version;
    return fake_.enter(*call, "Version");
  }
  grpc::Status Status(ServerContext* call, const cri::StatusRequest* request,
                      cri::StatusResponse* answer) override {
    if (request->verbose()) *answer = fake_.status;
    return fake_.enter(*call, "Status");
  }
  grpc::Status ListPodSandbox(ServerContext* call, const cri::ListPodSandboxRequest*,
                              cri::ListPodSandboxResponse* answer) override {
    *answer = fake_.sandboxes;
    return fake_.enter(*call, "ListPodSandbox");
  }
  grpc::Status StopPodSandbox(ServerContext* call, const cri::StopPodSandboxRequest* request,
                              cri::StopPodSandboxResponse*) override {
    return fake_.enter(*call, "StopPodSandbox", request->pod_sandbox_id());
  }
  grpc::Status RemovePodSandbox(ServerContext* call, const cri::RemovePodSandboxRequest* request,
                                cri::RemovePodSandboxResponse*) override {
    return fake_.enter(*call, "RemovePodSandbox", request->pod_sandbox_id());
  }
  grpc::Status ListContainers(ServerContext* call, const cri::ListContainersRequest*,
                              cri::ListContainersResponse* answer) override {
    *answer = fake_.containers;
    return fake_.enter(*call, "ListContainers");
  }
  grpc::Status RemoveContainer(ServerContext* call, const cri::RemoveContainerRequest* request,
                               cri::RemoveContainerResponse*) override {
    return fake_.enter(*call, "RemoveContainer", request->container_id());
  }
  grpc::Status ListContainerStats(ServerContext* call, const cri::ListContainerStatsRequest*,
                                  cri::ListContainerStatsResponse* answer) override {
    *answer = fake_.stats;
    return fake_.enter(*call, "ListContainerStats");
  }

 private:
  FakeRuntime& fake_;
};

class FakeRuntime::Images final : public cri::ImageService::Service {
 public:
  explicit Images(FakeRuntime& fake) : fake_(fake) {}

  grpc::Status ListImages(ServerContext* call, const cri::ListImagesRequest*,
                          cri::ListImagesResponse* answer) override {
    *answer = fake_.images;
    return fake_.enter(*call, "ListImages");
  }
  grpc::Status RemoveImage(ServerContext* call, const cri::RemoveImageRequest* request,
                           cri::RemoveImageResponse*) override {
    return fake_.enter(*call, "RemoveImage", request->image().image());
  }
  grpc::Status ImageFsInfo(ServerContext* call, const cri::ImageFsInfoRequest*,
                           cri::ImageFsInfoResponse* answer) override {
    *answer = fake_.filesystems;
    return fake_.enter(*call, "ImageFsInfo");
  }

 private:
  FakeRuntime& fake_;
};

FakeRuntime::FakeRuntime()
    : pods_(std::make_unique<Pods>(*this)), images_(std::make_unique<Images>(*this)) {
  version.set_runtime_name("fake");
  version.set_runtime_version("v1.2.3");
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
  builder.RegisterService(pods_.get());
  builder.RegisterService(images_.get());
  server_ = builder.BuildAndStart();
  if (!server_) throw std::runtime_error("no gRPC server on " + socket());
}

FakeRuntime::~FakeRuntime() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  server_->Shutdown();
}

clients::RuntimeOptions FakeRuntime::patient() {
  clients::RuntimeOptions options;
  options.deadline = options.removal_deadline = options.removal_budget = std::chrono::minutes(1);
  return options;
}

std::unique_ptr<clients::ContainerRuntime> FakeRuntime::client(
    clients::RuntimeOptions options) const {
  auto made = clients::connect(endpoint(), std::move(options));
  if (!made) throw std::runtime_error(made.error().text());
  return std::move(*made);
}

cri::PodSandbox& FakeRuntime::add_sandbox(const std::string& id, cri::PodSandboxState state) {
  auto& sandbox = *sandboxes.add_items();
  sandbox.set_id(id);
  sandbox.set_state(state);
  (*sandbox.mutable_labels())["io.kubernetes.pod.uid"] = id;
  return sandbox;
}

void FakeRuntime::add_pod_directory(const std::string& uid) const {
  std::filesystem::create_directories(pods_directory() + "/" + uid);
}

cri::Container& FakeRuntime::add_container(const std::string& id, const std::string& sandbox,
                                           cri::ContainerState state) {
  auto& container = *containers.add_containers();
  container.set_id(id);
  container.set_pod_sandbox_id(sandbox);
  container.set_state(state);
  (*container.mutable_labels())["io.kubernetes.pod.uid"] = sandbox;
  (*container.mutable_labels())["io.kubernetes.container.name"] = id;
  return container;
}

cri::Image& FakeRuntime::add_image(const std::string& id, std::uint64_t size,
                                   const std::string& tag) {
  auto& image = *images.add_images();
  image.set_id(id);
  image.set_size(size);
  if (!tag.empty()) image.add_repo_tags(tag);
  return image;
}

std::vector<std::string> FakeRuntime::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

bool FakeRuntime::wait_hanging() const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return hangs_; });
}

std::chrono::system_clock::time_point FakeRuntime::last_deadline() const {
  const std::lock_guard lock(mutex_);
  return last_deadline_;
}

grpc::Status FakeRuntime::enter(const ServerContext& call, const std::string& method,
                                const std::string& object) {
  const std::string whole = object.empty() ? method : method + " " + object;
  std::unique_lock lock(mutex_);
  last_deadline_ = call.deadline();
  if (!object.empty()) calls_.push_back(whole);
  if (hanging.contains(method) || hanging.contains(whole)) {
    hangs_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return ending_; });
  }
  for (const auto& key : {whole, method}) {
    if (const auto failure = failures.find(key); failure != failures.end()) return failure->second;
  }
  return grpc::Status::OK;
}

}  // namespace forestall::test
