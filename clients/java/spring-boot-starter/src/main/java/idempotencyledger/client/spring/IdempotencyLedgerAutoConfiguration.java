package idempotencyledger.client.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.LedgerBuilder;
import idempotencyledger.client.servlet.IdempotencyFilter;
import idempotencyledger.client.servlet.IdempotencySettings;
import jakarta.servlet.Filter;
import org.springframework.aop.Advisor;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Role;
import org.springframework.core.Ordered;

/**
 * Configures a {@link Ledger} where {@code idempotency-ledger.consumer} is set, or uses that of the
 * application.
 */
@AutoConfiguration(after = {AopAutoConfiguration.class, JacksonAutoConfiguration.class})
@EnableConfigurationProperties(IdempotencyLedgerProperties.class)
public class IdempotencyLedgerAutoConfiguration {
  /** Around transactions, which are committed before a call is completed. */
  private static final int AROUND_TRANSACTIONS = Ordered.HIGHEST_PRECEDENCE + 100;

  /** The configuration. */
  public IdempotencyLedgerAutoConfiguration() {}

  /**
   * The client of the ledger.
   *
   * @param properties its options
   * @return the client
   */
  @Bean(destroyMethod = "")
  @ConditionalOnMissingBean
  @ConditionalOnProperty("idempotency-ledger.consumer")
  public Ledger idempotencyLedger(IdempotencyLedgerProperties properties) {
    LedgerBuilder builder =
        Ledger.builder(properties.consumer())
            .endpoint(properties.endpoint())
            .tokenFile(properties.tokenFile())
            .caFile(properties.caFile())
            .lease(properties.lease())
            .owner(properties.owner())
            .unexpected(properties.unexpected())
            .repeatAnnounced(properties.repeatAnnounced())
            .interruptLost(properties.interruptLost())
            .handlerBudget(properties.handlerBudget())
            .ackWait(properties.ackWait());
    if (properties.clientCertFile() != null || properties.clientKeyFile() != null) {
      builder.clientCertificate(properties.clientCertFile(), properties.clientKeyFile());
    }
    return builder.build();
  }

  /**
   * Closes the client when the application ends, after what delivers messages and requests has
   * stopped.
   *
   * @param ledger the client
   * @param properties its options
   * @return what closes it
   */
  @Bean
  @ConditionalOnBean(Ledger.class)
  LedgerLifecycle idempotencyLedgerLifecycle(
      Ledger ledger, IdempotencyLedgerProperties properties) {
    return new LedgerLifecycle(ledger, properties.shutdownGrace());
  }

  /**
   * Calls {@link Idempotent} methods through the ledger.
   *
   * @param ledger the client
   * @param codec how values are stored
   * @return the advisor
   */
  @Bean
  @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
  static Advisor idempotentAdvisor(
      ObjectProvider<Ledger> ledger, ObjectProvider<ValueCodec> codec) {
    DefaultPointcutAdvisor advisor =
        new DefaultPointcutAdvisor(
            AnnotationMatchingPointcut.forMethodAnnotation(Idempotent.class),
            new IdempotentInterceptor(() -> configured(ledger), codec::getObject));
    advisor.setOrder(AROUND_TRANSACTIONS);
    return advisor;
  }

  private static Ledger configured(ObjectProvider<Ledger> ledger) {
    Ledger found = ledger.getIfAvailable();
    if (found == null) {
      throw new IllegalStateException(
          "there is no Ledger: set idempotency-ledger.consumer, or define a bean of that type");
    }
    return found;
  }

  /** Values as JSON. */
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(ObjectMapper.class)
  static class Json {
    @Bean
    @ConditionalOnMissingBean
    ValueCodec idempotentValueCodec(ObjectProvider<ObjectMapper> mapper) {
      return new JacksonCodec(mapper.getIfAvailable(ObjectMapper::new));
    }
  }

  /** The filter for {@code Idempotency-Key}. */
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(Filter.class)
  @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
  @ConditionalOnProperty("idempotency-ledger.http.enabled")
  static class Http {
    @Bean
    @ConditionalOnMissingBean(IdempotencyFilter.class)
    FilterRegistrationBean<IdempotencyFilter> idempotencyFilter(
        ObjectProvider<Ledger> ledger,
        ObjectProvider<IdempotencySettings> settings,
        IdempotencyLedgerProperties properties) {
      FilterRegistrationBean<IdempotencyFilter> filter =
          new FilterRegistrationBean<>(
              new IdempotencyFilter(
                  configured(ledger), settings.getIfAvailable(IdempotencySettings::new)));
      filter.setUrlPatterns(properties.http().urlPatterns());
      filter.setOrder(properties.http().order());
      return filter;
    }
  }
}
