// SPDX-License-Identifier: Apache-2.0
// What the client removes and keeps, in a runtime of the test that executes every removal.
#include <gmock/gmock.h>

#include <cerrno>

#include "clients/runtime.h"
#include "fake_runtime.h"

namespace forestall::clients {
namespace {

using std::chrono::milliseconds;
using test::FakeRuntime;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace cri = test::cri;

const grpc::Status kRefused{grpc::StatusCode::FAILED_PRECONDITION, "not now"};
const grpc::Status kNotFound{grpc::StatusCode::NOT_FOUND, "no such thing"};

// With one pod that runs, so that a pod without a directory counts as gone.
class NodeRuntime : public FakeRuntime {
 public:
  NodeRuntime() {
    add_sandbox("live", cri::SANDBOX_READY);
    add_pod_directory("live");
  }
  [[nodiscard]] RuntimeOptions options() const {
    RuntimeOptions options = patient();
    options.pods_directory = pods_directory();
    return options;
  }
};

// REQUIRES: the step as a whole succeeds.
DeadRemoval remove_dead(const FakeRuntime& fake, RuntimeOptions options) {
  auto removal = fake.client(std::move(options))->remove_dead_containers();
  if (!removal) ADD_FAILURE() << removal.error().text();
  return removal ? *removal : DeadRemoval();
}
DeadRemoval remove_dead(const NodeRuntime& fake) {
  return remove_dead(fake, fake.options());
}

ImageRemoval remove_unused(const FakeRuntime& fake,
                           RuntimeOptions options = FakeRuntime::patient()) {
  auto removal = fake.client(std::move(options))->remove_unused_images();
  if (!removal) ADD_FAILURE() << removal.error().text();
  return removal ? *removal : ImageRemoval();
}

TEST(RemoveDead, EverythingOfPodsThatAreGone) {
  NodeRuntime fake;
  fake.add_sandbox("empty", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("dead", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("running", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("lost", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("ready", cri::SANDBOX_READY);
  fake.add_container("c-starting", "dead", cri::CONTAINER_CREATED);
  fake.add_container("c-dead", "dead", cri::CONTAINER_EXITED);
  fake.add_container("c-running", "running", cri::CONTAINER_RUNNING);
  fake.add_container("c-beside", "running", cri::CONTAINER_EXITED);
  fake.add_container("c-lost", "lost", cri::CONTAINER_UNKNOWN);
  fake.add_container("c-ready", "ready", cri::CONTAINER_EXITED);
  const DeadRemoval removal = remove_dead(fake);
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveContainer c-dead", "StopPodSandbox empty",
                                        "RemovePodSandbox empty", "StopPodSandbox dead",
                                        "RemovePodSandbox dead"));
  EXPECT_EQ(removal, (DeadRemoval{1, 2, {}}));
}

cri::Container& add_instance(FakeRuntime& fake, const std::string& id, const std::string& name,
                             std::uint32_t attempt, cri::ContainerState state) {
  cri::Container& made = fake.add_container(id, "live", state);
  (*made.mutable_labels())["io.kubernetes.container.name"] = name;
  made.mutable_metadata()->set_attempt(attempt);
  made.set_created_at(1000 + attempt);
  return made;
}

// With restartPolicy Never or OnFailure kubelet would run a removed container again, and
// `kubectl logs --previous` reads the newest dead one of a container that runs.
TEST(RemoveDead, LivePodsKeepTheNewestDeadInstanceOfEachContainer) {
  NodeRuntime fake;
  add_instance(fake, "job-0", "job", 0, cri::CONTAINER_EXITED);
  add_instance(fake, "app-1", "app", 1, cri::CONTAINER_EXITED);
  add_instance(fake, "app-2", "app", 2, cri::CONTAINER_EXITED);
  add_instance(fake, "app-0", "app", 0, cri::CONTAINER_EXITED);
  add_instance(fake, "app-3", "app", 3, cri::CONTAINER_RUNNING);
  EXPECT_EQ(remove_dead(fake), (DeadRemoval{2, 0, {}}));
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveContainer app-1", "RemoveContainer app-0"));
}

// A completed pod, and every pod right after a reboot: the sandbox is not ready.
TEST(RemoveDead, PodsWithADirectoryKeepTheirNewestSandbox) {
  NodeRuntime fake;
  fake.add_pod_directory("pod");
  for (int i = 0; i < 3; ++i) {
    cri::PodSandbox& sandbox = fake.add_sandbox("s" + std::to_string(i), cri::SANDBOX_NOTREADY);
    (*sandbox.mutable_labels())["io.kubernetes.pod.uid"] = "pod";
    sandbox.set_created_at(1000 + i);
  }
  cri::Container& done = fake.add_container("c", "s0", cri::CONTAINER_EXITED);
  (*done.mutable_labels())["io.kubernetes.pod.uid"] = "pod";
  EXPECT_EQ(remove_dead(fake), (DeadRemoval{0, 1, {}}));
  EXPECT_THAT(fake.calls(), ElementsAre("StopPodSandbox s1", "RemovePodSandbox s1"))
      << "s0 holds the container, s2 is the newest";
}

// Without the directories, or with those of another root, no pod is known to be gone.
TEST(RemoveDead, UnknownPodsCountAsLive) {
  for (const bool other_root : {false, true}) {
    FakeRuntime fake;
    fake.add_sandbox("live", cri::SANDBOX_READY);
    fake.add_sandbox("dead", cri::SANDBOX_NOTREADY);
    fake.add_container("c", "dead", cri::CONTAINER_EXITED);
    RuntimeOptions options = FakeRuntime::patient();
    if (other_root) {
      fake.add_pod_directory("of-another-node");
      options.pods_directory = fake.pods_directory();
    }
    EXPECT_EQ(remove_dead(fake, options), DeadRemoval());
    EXPECT_THAT(fake.calls(), IsEmpty());
  }
}

TEST(RemoveDead, NothingIsRemovedUnlessTheDirectoriesCanBeRead) {
  FakeRuntime fake;
  fake.add_container("c", "s", cri::CONTAINER_EXITED);
  RuntimeOptions options = FakeRuntime::patient();
  options.pods_directory = fake.pods_directory();
  const auto removal = fake.client(options)->remove_dead_containers();
  ASSERT_FALSE(removal);
  EXPECT_EQ(removal.error().code, ENOENT);
  EXPECT_THAT(fake.calls(), IsEmpty());
}

// Another client of the runtime created it, and only that client decides whether it is needed.
TEST(RemoveDead, ContainersWithoutKubeletsLabelsAreNeverGone) {
  NodeRuntime fake;
  fake.add_sandbox("other", cri::SANDBOX_NOTREADY).clear_labels();
  fake.add_container("c", "other", cri::CONTAINER_EXITED).clear_labels();
  EXPECT_EQ(remove_dead(fake), DeadRemoval());
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST(RemoveDead, NothingToDo) {
  const NodeRuntime fake;
  EXPECT_EQ(remove_dead(fake), DeadRemoval());
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST(RemoveDead, AlreadyRemovedIsNoFailure) {
  NodeRuntime fake;
  fake.add_sandbox("s", cri::SANDBOX_NOTREADY);
  fake.add_container("c", "s", cri::CONTAINER_EXITED);
  fake.failures["RemoveContainer"] = kNotFound;
  fake.failures["StopPodSandbox"] = kNotFound;
  fake.failures["RemovePodSandbox"] = kNotFound;
  EXPECT_EQ(remove_dead(fake), (DeadRemoval{1, 1, {}}));
}

TEST(RemoveDead, FailuresDoNotBlockTheRest) {
  NodeRuntime fake;
  fake.add_sandbox("s1", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("s2", cri::SANDBOX_NOTREADY);
  fake.add_sandbox("s3", cri::SANDBOX_NOTREADY);
  fake.add_container("c1", "s1", cri::CONTAINER_EXITED);
  fake.add_container("c2", "s1", cri::CONTAINER_EXITED);
  fake.failures["RemoveContainer c1"] = kRefused;
  fake.failures["StopPodSandbox s1"] = kRefused;
  fake.failures["RemovePodSandbox s2"] = kRefused;
  const DeadRemoval removal = remove_dead(fake);
  // A sandbox that could not be stopped is not removed: its network would leak.
  EXPECT_THAT(fake.calls(),
              ElementsAre("RemoveContainer c1", "RemoveContainer c2", "StopPodSandbox s1",
                          "StopPodSandbox s2", "RemovePodSandbox s2", "StopPodSandbox s3",
                          "RemovePodSandbox s3"));
  EXPECT_EQ(removal.containers, 1U);
  EXPECT_EQ(removal.sandboxes, 1U);
  EXPECT_EQ(removal.failures.count, 3U);
  ASSERT_EQ(removal.failures.first.size(), 3U);
  EXPECT_EQ(removal.failures.first[0].text(),
            "container c1: CRI RemoveContainer: FAILED_PRECONDITION: not now");
}

TEST(RemoveDead, ManyFailuresAreCountedNotKept) {
  NodeRuntime fake;
  for (int i = 0; i < 40; ++i) {
    fake.add_container("c" + std::to_string(i), "s", cri::CONTAINER_EXITED);
  }
  fake.failures["RemoveContainer"] = kRefused;
  const DeadRemoval removal = remove_dead(fake);
  EXPECT_EQ(removal.failures.count, 40U);
  EXPECT_EQ(removal.failures.first.size(), RemovalFailures::kKept);
}

TEST(RemoveDead, NothingIsRemovedUnlessBothAreListed) {
  for (const char* list : {"ListPodSandbox", "ListContainers"}) {
    NodeRuntime fake;
    fake.add_sandbox("s", cri::SANDBOX_NOTREADY);
    fake.add_container("c", "s", cri::CONTAINER_EXITED);
    fake.failures[list] = kRefused;
    const auto removal = fake.client()->remove_dead_containers();
    ASSERT_FALSE(removal);
    EXPECT_THAT(removal.error().text(), HasSubstr(list));
    EXPECT_THAT(fake.calls(), IsEmpty());
  }
}

TEST(RemoveDead, OneThatHangsCostsItsDeadlineOnly) {
  NodeRuntime fake;
  fake.add_container("c1", "s", cri::CONTAINER_EXITED);
  fake.add_container("c2", "s", cri::CONTAINER_EXITED);
  fake.hanging.insert("RemoveContainer c1");
  RuntimeOptions options = fake.options();
  options.removal_deadline = milliseconds(100);
  const DeadRemoval removal = remove_dead(fake, options);
  EXPECT_EQ(removal.containers, 1U);
  ASSERT_EQ(removal.failures.count, 1U);
  EXPECT_EQ(removal.failures.first[0].code, ETIMEDOUT);
}

TEST(RemoveDead, TheBudgetLimitsTheWholeStep) {
  NodeRuntime fake;
  for (int i = 0; i < 40; ++i) {
    fake.add_container("c" + std::to_string(i), "s", cri::CONTAINER_EXITED);
  }
  fake.hanging.insert("RemoveContainer");
  RuntimeOptions options = fake.options();
  options.removal_budget = milliseconds(100);
  const DeadRemoval removal = remove_dead(fake, options);
  EXPECT_EQ(removal.containers, 0U);
  // The runtime gives up by its own clock, which may leave some time for another try.
  EXPECT_GE(removal.failures.count, 2U);
  EXPECT_LE(removal.failures.count, 4U);
  EXPECT_EQ(removal.failures.first.back().code, ETIMEDOUT);
  EXPECT_THAT(removal.failures.first.back().text(), HasSubstr("and all later ones are kept"));
}

TEST(RemoveDead, WithoutABudgetNoCallIsMade) {
  NodeRuntime fake;
  fake.add_container("c1", "s", cri::CONTAINER_EXITED);
  fake.add_container("c2", "s", cri::CONTAINER_EXITED);
  RuntimeOptions options = fake.options();
  options.removal_budget = Duration::zero();
  const DeadRemoval removal = remove_dead(fake, options);
  EXPECT_THAT(fake.calls(), IsEmpty());
  ASSERT_EQ(removal.failures.count, 1U);
  EXPECT_THAT(removal.failures.first[0].text(),
              HasSubstr("container c1 and all later ones are kept"));
}

TEST(RemoveImages, RemovesUnusedImagesLargestFirst) {
  FakeRuntime fake;
  fake.add_image("sha256:1", 10, "reg.io/small:1");
  fake.add_image("sha256:2", 1000, "reg.io/large:1");
  fake.add_image("sha256:3", 100);
  const ImageRemoval removal = remove_unused(fake);
  EXPECT_THAT(fake.calls(),
              ElementsAre("RemoveImage sha256:2", "RemoveImage sha256:3", "RemoveImage sha256:1"));
  EXPECT_EQ(removal, (ImageRemoval{3, Bytes{1110}, 0, 0, {}}));
}

TEST(RemoveImages, InUseByAnyReferenceOfAnyContainer) {
  FakeRuntime fake;
  fake.add_image("sha256:by-id", 1);
  fake.add_image("sha256:by-ref", 1);
  fake.add_image("sha256:by-name", 1, "reg.io/app:1");
  fake.add_image("sha256:by-digest", 1).add_repo_digests("reg.io/app@sha256:d1");
  fake.add_image("sha256:by-user", 1, "reg.io/user:1");
  fake.add_image("sha256:by-spec", 1);
  fake.add_image("sha256:free", 5);
  fake.add_container("1", "s", cri::CONTAINER_RUNNING).set_image_id("sha256:by-id");
  fake.add_container("2", "s", cri::CONTAINER_EXITED).set_image_ref("sha256:by-ref");
  fake.add_container("3", "s", cri::CONTAINER_CREATED).mutable_image()->set_image("reg.io/app:1");
  fake.add_container("4", "s", cri::CONTAINER_UNKNOWN).set_image_ref("mirror.io/app@sha256:d1");
  auto& spec = *fake.add_container("5", "s", cri::CONTAINER_RUNNING).mutable_image();
  spec.set_user_specified_image("reg.io/user:1");
  fake.add_container("6", "s", cri::CONTAINER_RUNNING)
      .mutable_image()
      ->set_image_ref("sha256:by-spec");
  const ImageRemoval removal = remove_unused(fake);
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveImage sha256:free"));
  EXPECT_EQ(removal, (ImageRemoval{1, Bytes{5}, 6, 0, {}}));
}

TEST(RemoveImages, PinnedImagesStay) {
  FakeRuntime fake;
  fake.add_image("sha256:1", 1).set_pinned(true);
  EXPECT_EQ(remove_unused(fake), (ImageRemoval{0, Bytes{0}, 0, 1, {}}));
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST(RemoveImages, SandboxImageAsConfiguredHere) {
  FakeRuntime fake;
  fake.add_image("sha256:1", 1, "reg.io/pause:3.9");
  fake.add_image("sha256:2", 1, "reg.io/pause:3.8");
  // The client does not call the runtime then.
  fake.failures["Status"] = kRefused;
  RuntimeOptions options = FakeRuntime::patient();
  options.sandbox_image = "reg.io/pause:3.9";
  EXPECT_EQ(remove_unused(fake, options), (ImageRemoval{1, Bytes{1}, 0, 1, {}}));
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveImage sha256:2"));
}

TEST(RemoveImages, SandboxImageAsTheRuntimeIsConfigured) {
  FakeRuntime fake;
  (*fake.status.mutable_info())["config"] =
      R"({"containerd":{"snapshotter":"x"},"sandboxImage":"reg.io/pause:3.9","more":[1,null]})";
  fake.add_image("sha256:1", 1, "reg.io/pause:3.9");
  fake.add_image("sha256:2", 1, "reg.io/app:1");
  EXPECT_EQ(remove_unused(fake), (ImageRemoval{1, Bytes{1}, 0, 1, {}}));
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveImage sha256:2"));
}

TEST(RemoveImages, RuntimeWithoutASandboxImage) {
  for (const char* config : {"", "{", "[]", "{}", R"({"sandboxImage":7})"}) {
    FakeRuntime fake;
    (*fake.status.mutable_info())["config"] = config;
    fake.add_image("sha256:1", 1, "reg.io/app:1");
    EXPECT_EQ(remove_unused(fake).images, 1U) << config;
  }
}

TEST(RemoveImages, IncompleteListsRemoveNothing) {
  for (const char* call : {"ListImages", "ListContainers", "Status"}) {
    FakeRuntime fake;
    fake.add_image("sha256:1", 1);
    fake.failures[call] = kRefused;
    const auto removal = fake.client()->remove_unused_images();
    ASSERT_FALSE(removal);
    EXPECT_THAT(removal.error().text(), HasSubstr(call));
    EXPECT_THAT(fake.calls(), IsEmpty());
  }
}

TEST(RemoveImages, FailuresFreeNothingAndDoNotBlockTheRest) {
  FakeRuntime fake;
  fake.add_image("sha256:1", 100);
  fake.add_image("sha256:2", 10);
  fake.add_image("sha256:3", 1);
  fake.failures["RemoveImage sha256:1"] = kRefused;
  fake.failures["RemoveImage sha256:2"] = kNotFound;
  const ImageRemoval removal = remove_unused(fake);
  EXPECT_EQ(removal.images, 2U);
  EXPECT_EQ(removal.freed, Bytes{11});
  EXPECT_EQ(removal.failures.count, 1U);
}

// The container that an image was pulled for may not exist yet.
TEST(RemoveImages, ImagesPulledAfterTheFirstListingStayForTheMinimumAge) {
  FakeRuntime fake;
  fake.add_image("sha256:old", 10);
  RuntimeOptions options = FakeRuntime::patient();
  options.image_ages = std::make_shared<ImageAges>();
  ASSERT_TRUE(fake.client(options)->note_images());
  fake.add_image("sha256:pulled", 100);
  const ImageRemoval removal = remove_unused(fake, options);
  EXPECT_THAT(fake.calls(), ElementsAre("RemoveImage sha256:old"));
  EXPECT_EQ(removal, (ImageRemoval{1, Bytes{10}, 0, 0, {}, 1}));
}

TEST(ImageAges, CountFromTheListingThatFoundTheImage) {
  ImageAges ages;
  const MonotonicTime start = from_ns(1);
  EXPECT_FALSE(ages.is_old("a", start));
  ages.note({"a"}, start);
  EXPECT_TRUE(ages.is_old("a", start));
  ages.note({"a", "b"}, start);
  EXPECT_TRUE(ages.is_old("a", start));
  EXPECT_FALSE(ages.is_old("b", start + ImageAges::kMinimum - Duration{1}));
  EXPECT_TRUE(ages.is_old("b", start + ImageAges::kMinimum));
  // Removed and pulled again.
  ages.note({"a"}, start + ImageAges::kMinimum);
  ages.note({"a", "b"}, start + ImageAges::kMinimum);
  EXPECT_FALSE(ages.is_old("b", start + ImageAges::kMinimum));
}

TEST(RemoveImages, AcceptsAListBeyondGrpcsDefaultLimit) {
  FakeRuntime fake;
  const std::string repository = "registry.example.com/" + std::string(400, 'r');
  for (int i = 0; i < 10'000; ++i) {
    const std::string number = std::to_string(i);
    fake.add_image("sha256:" + number, 1, repository + ":" + number).set_pinned(true);
  }
  ASSERT_GT(fake.images.ByteSizeLong(), std::size_t{4} << 20);
  EXPECT_EQ(remove_unused(fake).pinned, 10'000U);

  RuntimeOptions options = FakeRuntime::patient();
  options.max_reply_bytes = std::size_t{4} << 20;
  const auto refused = fake.client(options)->remove_unused_images();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EMSGSIZE);
}

}  // namespace
}  // namespace forestall::clients
