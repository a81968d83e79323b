#include "fuse-client/job_cgroup.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forebay {
namespace {

constexpr const char* kPod = "4be8b4c6-22b6-4a5b-8f4c-9f0d6f1e2a3b";
constexpr const char* kContainer =
    "0b3d1f5e6a7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80912a3b4c5d6e7f8";

struct Case {
  const char* what;
  std::string text;
  const char* job;  // nullptr = none
};

std::vector<Case> SlurmCases() {
  return {
      {"Slurm 22.05 and later, version 2",
       "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "4711"},
      {"several slurmd on one host",
       "0::/system.slice/gpu7_slurmstepd.scope/job_4711/step_batch/user/task_0\n", "4711"},
      {"the step of a shell that was adopted by pam_slurm_adopt",
       "0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n", "12"},
      {"version 1, uid and job",
       "12:cpuset:/slurm/uid_1000/job_4711/step_0\n"
       "11:memory:/slurm/uid_1000/job_4711/step_0/task_0\n"
       "9:freezer:/slurm/uid_1000/job_4711/step_0\n1:name=systemd:/system.slice/slurmd.service\n",
       "4711"},
      {"version 1 with the node's name",
       "4:devices:/slurm_gpu7/uid_1000/job_815/step_batch\n0::/system.slice/slurmd.service\n",
       "815"},
      {"only one controller is Slurm's",
       "3:cpu,cpuacct:/user.slice\n2:freezer:/slurm/uid_0/job_9/step_0\n1:pids:/\n", "9"},
      {"the largest id", "0::/system.slice/slurmstepd.scope/job_4294967295/step_0\n", "4294967295"},
      {"a Slurm cluster inside pods",
       "0::/kubepods.slice/kubepods-pod4be8b4c6_22b6_4a5b_8f4c_9f0d6f1e2a3b.slice/"
       "cri-containerd-1.scope/system.slice/slurmstepd.scope/job_5/step_0\n",
       "5"},
      {"seen from another cgroup namespace", "0::/../../slurmstepd.scope/job_77/step_0/user\n",
       "77"},
      {"slurmd itself", "0::/system.slice/slurmd.service\n", nullptr},
      {"the scope without a job", "0::/system.slice/slurmstepd.scope/system\n", nullptr},
      {"a folder of that name elsewhere", "0::/user.slice/job_4711/step_0\n", nullptr},
      {"no number", "0::/system.slice/slurmstepd.scope/job_/step_0\n", nullptr},
      {"more than a number", "0::/system.slice/slurmstepd.scope/job_12x/step_0\n", nullptr},
      {"no id of Slurm's", "0::/system.slice/slurmstepd.scope/job_12345678901/step_0\n", nullptr},
  };
}

std::vector<Case> KubernetesCases() {
  const std::string container(kContainer);
  const std::string pod(kPod);
  const std::string slice_uid = "4be8b4c6_22b6_4a5b_8f4c_9f0d6f1e2a3b";
  return {
      {"cgroupfs driver, burstable", "11:memory:/kubepods/burstable/pod" + pod + "/" + container,
       kPod},
      {"cgroupfs driver, guaranteed, version 2", "0::/kubepods/pod" + pod + "/" + container + "\n",
       kPod},
      {"systemd driver, containerd",
       "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice_uid +
           ".slice/cri-containerd-" + container + ".scope\n",
       kPod},
      {"systemd driver, guaranteed, CRI-O",
       "0::/kubepods.slice/kubepods-pod" + slice_uid + ".slice/crio-" + container + ".scope\n",
       kPod},
      {"systemd driver, docker",
       "5:cpuset:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice_uid +
           ".slice/docker-" + container + ".scope\n",
       kPod},
      {"containerd's version 1 form with colons",
       "9:memory:/system.slice/containerd.service/kubepods-besteffort-pod" + slice_uid +
           ".slice:cri-containerd:" + container + "\n",
       kPod},
      {"kind, below the kubelet's slice",
       "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
       "kubelet-kubepods-besteffort-pod" +
           slice_uid + ".slice/cri-containerd-" + container + ".scope\n",
       kPod},
      {"a static pod", "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + container,
       "0123456789abcdef0123456789abcdef"},
      {"a cluster inside a pod of a cluster",
       "0::/kubepods/burstable/pod00000000-0000-0000-0000-000000000000/x/kubepods/pod" + pod + "/y",
       kPod},
      {"the quality class alone", "0::/kubepods.slice/kubepods-burstable.slice\n", nullptr},
      {"a folder of that name elsewhere", "0::/user.slice/pod" + pod + "\n", nullptr},
      {"podman", "0::/machine.slice/libpod-" + container + ".scope/container\n", nullptr},
      {"docker without Kubernetes", "0::/system.slice/docker-" + container + ".scope\n", nullptr},
  };
}

void Check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const std::optional<std::string> job = JobOfCgroups(one.text);
    EXPECT_EQ(job.value_or("none"), one.job == nullptr ? "none" : one.job) << one.what;
  }
}

TEST(JobOfCgroups, KnowsSlurmJobs) { Check(SlurmCases()); }

TEST(JobOfCgroups, KnowsKubernetesPods) { Check(KubernetesCases()); }

TEST(JobOfCgroups, FindsNoneWhereThereIsNone) {
  Check({{"empty", "", nullptr},
         {"the root", "0::/\n", nullptr},
         {"a session", "0::/user.slice/user-1000.slice/session-3.scope\n", nullptr},
         {"garbage", "job_12\nslurm/job_12", nullptr},
         {"no path", "0::\n1:cpu\n\n", nullptr}});
}

}  // namespace
}  // namespace forebay
