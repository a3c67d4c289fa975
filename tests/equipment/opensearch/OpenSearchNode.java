import org.codelibs.opensearch.runner.OpenSearchRunner;

/** Starts one node of OpenSearch in this JVM. Arguments: HTTP port, folder of its data. */
public final class OpenSearchNode {
    public static void main(String[] arguments) throws Exception {
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((index, settings) -> {
            settings.put("network.host", "127.0.0.1");
            settings.put("http.port", arguments[0]);
            settings.put("discovery.type", "single-node");
            settings.putList("discovery.seed_hosts");
            settings.put("http.max_content_length", "1mb");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        }).build(OpenSearchRunner.newConfigs().basePath(arguments[1]).numOfNode(1).clusterName("tests").disableESLogger());
        runner.ensureYellow();
        Thread.currentThread().join();
    }
}
